//! What local mode does to files, without a server.

use std::fs;
use std::path::PathBuf;

use super::directory::Root;
use super::file_directory;
use super::keeper::{Event, Keeper, Launch};
use super::source::{Edit, Source};
use crate::crd::strict;
use crate::plan::{Layout, Membership, Objects, Revision, Timestamp};

const THREE: &str = include_str!("../../examples/three-members.yaml");
const NAME: &str = "three-members";

struct Place {
    directory: tempfile::TempDir,
    root: Root,
    objects: Objects,
}

fn place() -> Place {
    let directory = tempfile::tempdir().expect("a directory");
    let root = Root::open(Some(directory.path())).expect("the root");
    let ensemble = strict::read(THREE).expect("the example");
    let layout = Layout::Machine { base_port: 2181, root: root.path().display().to_string() };
    let objects = Objects::of(&ensemble, &Membership::wanted(&ensemble.spec), &layout);
    Place { directory, root, objects }
}

impl Place {
    fn data(&self, id: u64) -> PathBuf {
        self.directory.path().join(format!("{NAME}-{id}/data"))
    }

    /// Members that may start from nothing.
    fn marked(&self) -> Vec<u64> {
        (1..=3).filter(|id| self.data(*id).join("initialize").exists()).collect()
    }
}

#[test]
fn the_first_bootstrap_marks_every_member() {
    let place = place();
    let done = place.root.bootstrap(NAME, &place.objects).expect("it works");
    assert_eq!(place.marked(), [1, 2, 3]);
    assert!(done.kept.is_empty());
    assert_eq!(place.root.membership(NAME).expect("a record"), Some(done.membership));
}

/// The fault: the marker was withheld from the members with data only. The others could elect each other from nothing,
/// and take the history from the one that came late.
#[test]
fn data_of_a_majority_keeps_the_marker_from_all_members() {
    let place = place();
    for id in [1, 3] {
        fs::create_dir_all(place.data(id).join("version-2")).expect("data");
    }
    let done = place.root.bootstrap(NAME, &place.objects).expect("it works");
    assert_eq!(place.marked(), [] as [u64; 0]);
    assert_eq!(done.kept, [format!("{NAME}-1"), format!("{NAME}-3")]);
}

/// The fault: beside data of a minority the others either start from nothing, which loses it, or have no vote, so that
/// nobody ever leads and nothing says why. Data of a member that is no longer wanted counts as well as any.
#[test]
fn data_of_a_minority_is_no_bootstrap_and_says_what_to_do() {
    for id in [1, 5] {
        let place = place();
        fs::create_dir_all(place.data(id).join("version-2")).expect("data");
        let Err(error) = place.root.bootstrap(NAME, &place.objects) else { panic!("member {id} has data") };
        let text = error.to_string();
        assert!(
            text.contains(&format!("there is data in {NAME}-{id}, and 2 of 3 voters must have it")),
            "{text}"
        );
        assert_eq!(place.marked(), [] as [u64; 0]);
        assert_eq!(place.root.membership(NAME).expect("readable"), None, "nothing is recorded");
    }
}

/// The fault: markers of a bootstrap that was cut short stay, and data is brought before the next one.
#[test]
fn markers_left_before_data_was_brought_are_removed() {
    let place = place();
    place.root.bootstrap(NAME, &place.objects).expect("it works");
    fs::remove_file(place.directory.path().join(format!("{NAME}.membership.yaml"))).expect("no record");
    for id in [1, 2] {
        fs::create_dir_all(place.data(id).join("version-2")).expect("data");
    }
    place.root.bootstrap(NAME, &place.objects).expect("it works");
    assert_eq!(place.marked(), [] as [u64; 0]);
}

/// The fault: a member's log was appended to for ever, on the disk of the data.
#[test]
fn a_members_log_is_bounded() {
    let place = place();
    place.root.bootstrap(NAME, &place.objects).expect("it works");
    let member = format!("{NAME}-1");
    let log = place.root.log(&member).expect("the log");
    let path = place.directory.path().join(&member).join("server.log");
    let size = |path: &PathBuf| fs::metadata(path).expect("the file").len();
    log.set_len(1000).expect("a short log");
    place.root.trim_log(&member).expect("it works");
    assert_eq!(size(&path), 1000, "a short one stays");
    log.set_len(40 << 20).expect("a long log");
    place.root.trim_log(&member).expect("it works");
    assert_eq!(size(&path), 0);
    assert_eq!(size(&path.with_extension("log.1")), 16 << 20, "the end is kept");
    std::io::Write::write_all(&mut &log, b"next\n").expect("the member writes on");
    assert_eq!(fs::read(&path).expect("the log"), b"next\n");
}

fn source(directory: &tempfile::TempDir) -> (Source, PathBuf) {
    let path = directory.path().join("ensemble.yaml");
    fs::write(&path, THREE).expect("the file");
    (Source::open(&path).expect("a valid file"), path)
}

/// The fault: an edit that is no UTF-8, or that nobody may read, was never told of.
#[test]
fn an_edit_that_cannot_be_read_is_refused_once_and_the_next_one_is_taken() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut source, path) = source(&directory);
    fs::write(&path, b"\xff\xfe").expect("no UTF-8");
    assert!(source.poll().is_none(), "half an edit, perhaps");
    let Some(Edit::Refused(why)) = source.poll() else { panic!("it is told") };
    assert!(why.contains("cannot be read"), "{why}");
    assert!(source.poll().is_none(), "and told once");
    fs::write(&path, THREE.replace("100000", "50000")).expect("a valid edit");
    assert!(source.poll().is_none());
    assert!(matches!(source.poll(), Some(Edit::Accepted)));
    assert_eq!(source.ensemble().spec.config["snapCount"], "50000");
}

#[test]
fn a_file_that_is_away_for_one_look_is_an_editors_rename() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut source, path) = source(&directory);
    fs::remove_file(&path).expect("gone");
    assert!(source.poll().is_none());
    fs::write(&path, THREE).expect("back");
    assert!(source.poll().is_none());
    assert!(source.poll().is_none());
}

/// The fault: for a file named without a directory, `local:zk-server` was looked for in `$PATH`.
#[test]
fn a_path_in_a_file_without_a_directory_is_beside_the_file() {
    let beside = file_directory("x.yaml".as_ref()).expect("a directory");
    assert_eq!(beside, std::env::current_dir().expect("the directory"));
}

/// The fault: a member killed on the way out was not waited for, and wrote on in a directory that was being removed.
#[tokio::test]
async fn a_keeper_that_is_dropped_leaves_no_process() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().expect("a directory");
    let binary = directory.path().join("fake");
    fs::write(&binary, "#!/bin/sh\nexec sleep 600\n").expect("the script");
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).expect("it may run");
    let launch = Launch {
        uid: "1-1".to_owned(),
        revision: Revision::recorded("x"),
        binary,
        zoo_cfg: directory.path().join("zoo.cfg"),
        log: fs::File::create(directory.path().join("log")).expect("the log"),
    };
    let (keeper, event) = Keeper::start(launch, Timestamp::now());
    let Event::Started { pid } = event else { panic!("it runs") };
    drop(keeper);
    assert!(!PathBuf::from(format!("/proc/{pid}")).exists(), "process {pid} is there, or waits to be reaped");
}
