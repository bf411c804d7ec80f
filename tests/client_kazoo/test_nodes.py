"""Creating, reading, changing and deleting nodes through kazoo: results, stats, errors."""

import pytest
from kazoo.exceptions import BadArgumentsError, BadVersionError, NoChildrenForEphemeralsError, NodeExistsError, NoNodeError, NotEmptyError, RolledBackError
from zkharness import wire
from zkharness.clients import client
from zkharness.servers import wait_until


def test_a_created_node_has_its_data_and_a_stat_of_a_new_node(zk, base):
    path, stat = zk.create(f"{base}/n", b"data", include_data=True)
    assert path == f"{base}/n"
    assert (stat.version, stat.cversion, stat.aversion, stat.numChildren, stat.dataLength) == (0, 0, 0, 0, 4)
    assert stat.czxid == stat.mzxid == stat.pzxid > 0
    assert stat.ephemeralOwner == 0 and stat.ctime == stat.mtime
    assert zk.get(path) == (b"data", stat)


def test_empty_data_and_a_mebibyte_less_the_frame_are_kept_as_they_are(zk, base):
    for data in (b"", b"\x00\xff" * 500_000):
        zk.set(base, data)
        assert zk.get(base)[0] == data


def test_an_oversized_request_closes_the_connection_and_changes_nothing(zk, standalone, base):
    with client(standalone.address, connection_retry={"max_tries": 1}) as loud:
        with pytest.raises(Exception):  # noqa: B017 kazoo reports it as a lost connection, by several names
            loud.set(base, b"x" * 1_200_000)
    assert zk.get(base)[0] == b"base"


def test_create_refuses_a_second_node_a_missing_parent_and_a_bad_path(zk, base):
    with pytest.raises(NodeExistsError):
        zk.create(base)
    with pytest.raises(NoNodeError):
        zk.create(f"{base}/none/n")
    assert zk.exists(f"{base}/none") is None


def test_set_and_delete_check_the_version_when_one_is_given(zk, base):
    assert zk.set(base, b"1", version=0).version == 1
    with pytest.raises(BadVersionError):
        zk.set(base, b"2", version=0)
    with pytest.raises(BadVersionError):
        zk.delete(base, version=0)
    zk.delete(base, version=1)
    with pytest.raises(NoNodeError):
        zk.get(base)


def test_a_node_with_children_is_not_deleted(zk, base):
    zk.create(f"{base}/child")
    with pytest.raises(NotEmptyError):
        zk.delete(base)
    assert zk.get_children(base) == ["child"]


def test_children_change_the_parents_cversion_and_pzxid_but_not_its_version(zk, base):
    zk.create(f"{base}/a")
    stat = zk.create(f"{base}/b", include_data=True)[1]
    names, parent = zk.get_children(base, include_data=True)
    assert sorted(names) == ["a", "b"]
    assert (parent.version, parent.cversion, parent.numChildren, parent.pzxid) == (0, 2, 2, stat.czxid)
    zk.delete(f"{base}/a")
    parent = zk.exists(base)
    assert (parent.cversion, parent.numChildren) == (3, 1) and parent.pzxid > stat.czxid


def test_sequence_numbers_are_ten_digits_and_go_up_by_parent(zk, other, base):
    paths = [c.create(f"{base}/s-", sequence=True) for c in (zk, other, zk)]
    assert paths == [f"{base}/s-{n:010}" for n in range(3)]
    zk.delete(paths[2])
    assert zk.create(f"{base}/t-", sequence=True) == f"{base}/t-0000000003", "deletions give no number back"


def test_an_ephemeral_node_has_its_owner_no_children_and_ends_with_its_session(zk, standalone, base):
    with client(standalone.address) as owner:
        owner.create(f"{base}/e", ephemeral=True)
        assert zk.exists(f"{base}/e").ephemeralOwner == owner.client_id[0]
        with pytest.raises(NoChildrenForEphemeralsError):
            zk.create(f"{base}/e/child")
    assert zk.exists(f"{base}/e") is None


def test_an_ephemeral_node_outlives_a_lost_connection_and_ends_when_the_session_expires(zk, standalone, base):
    first = wire.Connection(standalone.port, timeout_ms=1500)
    assert first.call("create", wire.create(f"{base}/e", b"", wire.EPHEMERAL)).error == 0
    first.close()
    again = wire.Connection(standalone.port, 1500, first.session, first.password)
    assert again.session == first.session
    assert zk.exists(f"{base}/e").ephemeralOwner == first.session
    again.close()  # and the session falls silent
    wait_until(lambda: zk.exists(f"{base}/e") is None, 15, "the node's end with its session")
    late = wire.Connection(standalone.port, 1500, first.session, first.password)
    assert (late.session, late.timeout_ms) == (0, 0), "an expired session is not taken up"


def test_a_session_is_not_taken_up_with_a_wrong_password(zk, standalone, base):
    session, _ = zk.client_id
    with client(standalone.address, client_id=(session, b"0123456789abcdef")) as thief:
        assert thief.client_id[0] != session, "a wrong password gives a new session"
    assert zk.exists(base), "the session goes on"


def test_a_transaction_applies_all_of_its_operations_or_none(zk, base):
    good = zk.transaction()
    good.create(f"{base}/a", b"1")
    good.set_data(f"{base}/a", b"2")
    good.check(f"{base}/a", version=1)
    good.create(f"{base}/a/b")
    good.delete(f"{base}/a/b")
    results = good.commit()
    assert results[0] == f"{base}/a" and results[1].version == 1 and results[2:] == [True, f"{base}/a/b", True]

    bad = zk.transaction()
    bad.create(f"{base}/c")
    bad.check(base, version=7)
    bad.delete(f"{base}/a")
    results = bad.commit()
    assert [type(r).__name__ for r in results] == ["RolledBackError", "BadVersionError", "RuntimeInconsistency"]
    assert isinstance(results[0], RolledBackError)
    assert zk.exists(f"{base}/c") is None and zk.get(f"{base}/a")[0] == b"2"


def test_the_nodes_of_a_transaction_share_one_zxid(zk, base):
    both = zk.transaction()
    both.create(f"{base}/a")
    both.create(f"{base}/b")
    both.commit()
    assert zk.exists(f"{base}/a").czxid == zk.exists(f"{base}/b").czxid


def test_ensure_path_and_a_recursive_delete_go_over_several_levels(zk, base):
    zk.ensure_path(f"{base}/a/b/c")
    zk.delete(f"{base}/a", recursive=True)
    assert zk.get_children(base) == []


def test_a_chroot_hides_the_nodes_outside_of_it(standalone, zk, base):
    with client(f"{standalone.address}{base}") as inner:
        inner.create("/n", b"inside")
        assert inner.get_children("/") == ["n"]
    assert zk.get(f"{base}/n")[0] == b"inside"


def test_a_path_that_is_not_normal_is_refused(zk):
    for path in ("/a/../b", "/a/./b"):
        with pytest.raises((BadArgumentsError, ValueError, NoNodeError)):
            zk.get(path)


def test_the_four_letter_words_answer(zk, standalone):
    assert standalone.word("ruok") == "imok"
    assert standalone.mode() == "standalone"
    assert int(standalone.metrics()["zk_num_alive_connections"]) >= 1
    assert "Mode: standalone" in zk.command(b"stat")
    assert standalone.word("isro") == "rw"
