//! [`LoggedTxn`]: a transaction and the one serialized form that every consumer shares.

use bytes::Bytes;

use super::{LoggedTxn, Txn, TxnDigest, TxnHeader};
use crate::codec::{DecodeError, Reader, Writer};
use crate::ids::Zxid;

impl LoggedTxn {
    /// Serializes a new transaction.
    ///
    /// `txn` becomes what the bytes decode to. The two differ only for text outside the basic plane (in ACL ids; paths
    /// cannot hold it): upstream writes it in a form that reads back as U+FFFD, and the leader must apply what its
    /// followers read.
    ///
    /// # Panics
    /// If the header's `op` does not belong to `txn`.
    pub fn new(header: TxnHeader, txn: Txn, digest: Option<TxnDigest>) -> Self {
        assert!(txn.fits(header.op), "header {header:?} must agree with its transaction");
        let mut out = Vec::new();
        let mut w = Writer::new(&mut out);
        header.encode(&mut w);
        txn.encode(&mut w);
        let lossy = w.lossy();
        if let Some(digest) = digest {
            digest.encode(&mut w);
        }
        let bytes = Bytes::from(out);
        if lossy {
            return Self::decode(bytes).expect("a transaction just encoded must decode");
        }
        Self { header, txn, digest, bytes }
    }

    /// Reads one entry of the log or one proposal: header, body and, if 12 more bytes follow, a digest. The entry
    /// keeps `bytes` as they are.
    ///
    /// # Errors
    /// Bytes that are not an entry; an operation that is never logged, by number.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes.clone());
        let header = TxnHeader::decode(&mut r)?;
        let txn = Txn::decode(header.op, &mut r)?;
        let digest =
            if r.remaining() >= TxnDigest::ENCODED_LEN { Some(TxnDigest::decode(&mut r)?) } else { None };
        Ok(Self { header, txn, digest, bytes })
    }

    /// The transaction's id.
    pub const fn zxid(&self) -> Zxid {
        self.header.zxid
    }
}
