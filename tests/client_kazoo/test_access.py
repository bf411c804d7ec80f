"""Who may do what: ACLs by world, digest and ip, and their change."""

import pytest
from kazoo.exceptions import BadVersionError, InvalidACLError, NoAuthError
from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, Id, make_acl, make_digest_acl
from zkharness.clients import client


def test_a_node_for_reading_only_is_not_written_or_deleted_by_its_parents_rule(zk, base):
    zk.create(f"{base}/r", b"1", acl=READ_ACL_UNSAFE)
    assert zk.get(f"{base}/r")[0] == b"1"
    with pytest.raises(NoAuthError):
        zk.set(f"{base}/r", b"2")
    with pytest.raises(NoAuthError):
        zk.create(f"{base}/r/child")
    zk.delete(f"{base}/r")  # the parent's permission decides on that


def test_a_digest_user_gets_in_with_the_password_and_no_one_without(standalone, zk, base):
    acl = make_digest_acl("ann", "secret", all=True)
    zk.create(f"{base}/d", b"1", acl=[acl])
    with pytest.raises(NoAuthError):
        zk.get(f"{base}/d")
    with client(standalone.address) as wrong:
        wrong.add_auth("digest", "ann:wrong")
        with pytest.raises(NoAuthError):
            wrong.get(f"{base}/d")
    with client(standalone.address) as ann:
        ann.add_auth("digest", "ann:secret")
        assert ann.get(f"{base}/d")[0] == b"1"
        assert ann.get_acls(f"{base}/d")[0] == [acl]


def test_the_creators_rule_is_stored_as_the_creators_digest(standalone, base):
    with client(standalone.address) as bob:
        with pytest.raises(InvalidACLError):
            bob.create(f"{base}/none", acl=CREATOR_ALL_ACL)
        bob.add_auth("digest", "bob:pw")
        bob.create(f"{base}/mine", acl=CREATOR_ALL_ACL)
        assert bob.get_acls(f"{base}/mine")[0] == [make_digest_acl("bob", "pw", all=True)]


def test_an_address_rule_lets_this_machine_in_and_another_network_not(zk, base):
    zk.create(f"{base}/here", acl=[make_acl("ip", "127.0.0.0/8", all=True)])
    zk.set(f"{base}/here", b"1")
    zk.create(f"{base}/there", acl=[make_acl("ip", "192.0.2.1", all=True)])
    with pytest.raises(NoAuthError):
        zk.get(f"{base}/there")


def test_changing_the_rule_checks_its_version_and_counts_it(zk, base):
    assert zk.set_acls(base, OPEN_ACL_UNSAFE, version=0).aversion == 1
    with pytest.raises(BadVersionError):
        zk.set_acls(base, READ_ACL_UNSAFE, version=0)
    zk.set_acls(base, READ_ACL_UNSAFE)
    with pytest.raises(NoAuthError):
        zk.set_acls(base, OPEN_ACL_UNSAFE)


def test_an_unknown_scheme_a_malformed_digest_and_an_empty_rule_are_refused(zk, base):
    for acls in ([ACL(31, Id("nosuch", "x"))], [ACL(31, Id("digest", "no-colon"))], [ACL(31, Id("ip", "not-an-address"))]):
        with pytest.raises(InvalidACLError):
            zk.create(f"{base}/n", acl=acls)


def test_a_check_in_a_transaction_needs_read_permission(zk, base):
    zk.create(f"{base}/w", acl=[make_acl("world", "anyone", write=True)])
    transaction = zk.transaction()
    transaction.check(f"{base}/w", version=0)
    assert isinstance(transaction.commit()[0], NoAuthError)
