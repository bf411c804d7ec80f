//! The codec against upstream's own bytes, and against bytes that are no records.

mod records;
mod robustness;
mod stored;
mod support;
