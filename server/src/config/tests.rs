use std::path::PathBuf;

use super::properties::{self, Origin};
use super::server_line::parse_host_port;
use super::{Config, Diagnostic, ServerLine, Sources, WordList, load};

/// A configuration file in a directory of its own, with `myid` where asked for.
struct Files {
    dir: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("temporary directory") }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).expect("write");
        path
    }

    fn load(&self, text: &str) -> Result<super::Loaded, Vec<Diagnostic>> {
        let data = format!("dataDir={}\n", self.dir.path().display());
        let file = self.write("zoo.cfg", &format!("{text}\n{data}"));
        load(&Sources { file: Some(file), ..Sources::default() })
    }

    fn config(&self, text: &str) -> Config {
        self.load(text).expect("valid").config
    }

    /// Errors as text, without the directory.
    fn errors(&self, text: &str) -> Vec<String> {
        let faults = self.load(text).expect_err("must be refused");
        let dir = format!("{}/", self.dir.path().display());
        faults.into_iter().map(|fault| fault.to_string().replace(&dir, "")).collect()
    }
}

const THREE: &str = "tickTime=2000\ninitLimit=10\nsyncLimit=5\nclientPort=2181\nserver.1=a:2888:3888\n\
                     server.2=b:2888:3888\nserver.3=c:2888:3888:observer\n";

#[test]
fn properties_follow_java_in_comments_separators_escapes_and_continuations() {
    let text = "# comment\n! also\n\na=1\nb : 2\nc 3\n  d\\ e = x\\ty \nlong=one,\\\n   two\nunicode=\\u0041\nlast\n";
    let found: Vec<_> =
        properties::parse("f", text).into_iter().map(|p| (p.key, p.value, p.origin.line)).collect();
    let expected = [
        ("a", "1", 4),
        ("b", "2", 5),
        ("c", "3", 6),
        ("d e", "x\ty", 7),
        ("long", "one,two", 8),
        ("unicode", "A", 10),
        ("last", "", 11),
    ];
    let expected: Vec<_> =
        expected.iter().map(|(k, v, line)| ((*k).to_owned(), (*v).to_owned(), *line)).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_minimal_file_gets_the_defaults_of_upstream() {
    let config = Files::new().config("tickTime=2000\nclientPort=2181");
    assert!(config.ensemble.is_none() && config.peer.membership.is_none());
    assert_eq!((config.client.min_session_timeout, config.client.max_session_timeout), (4000, 40_000));
    assert_eq!((config.client.max_per_ip, config.client.outstanding_limit), (60, 1000));
    assert_eq!((config.peer.snap_count, config.peer.commit_log_count), (100_000, 500));
    assert_eq!(config.peer.snap_size_limit, 4 << 30);
    assert_eq!(config.storage.prealloc_bytes, 64 << 20);
    assert_eq!(config.storage.max_record, 2 * 0xf_ffff);
    assert_eq!(config.storage.data_log_dir, config.storage.data_dir);
    assert!(config.storage.force_sync && config.storage.db_autocreate && config.admin.enabled);
    assert_eq!(config.admin.address.to_string(), "0.0.0.0:8080");
    assert!(config.metrics.is_none());
    assert!(config.words.allows("srvr") && !config.words.allows("ruok"));
}

#[test]
fn an_ensemble_is_read_with_roles_and_canonical_texts() {
    let files = Files::new();
    files.write("myid", "2\n");
    let config = files.config(THREE);
    let members = config.peer.membership.expect("distributed");
    let texts: Vec<&str> = members.members.values().map(|member| &*member.text).collect();
    assert_eq!(texts, ["a:2888:3888:participant", "b:2888:3888:participant", "c:2888:3888:observer"]);
    assert_eq!(config.my_id.0, 2);
    assert_eq!(config.net.learner_connect_limit.as_millis(), 20_000);
}

#[test]
fn one_server_line_runs_standalone_and_with_standalone_off_as_an_ensemble_of_one() {
    let files = Files::new();
    files.write("myid", "1");
    let base = "tickTime=2000\ninitLimit=5\nsyncLimit=2\nclientPort=2181\nserver.1=a:2888:3888\n";
    assert!(files.config(base).ensemble.is_none());
    assert!(files.config(&format!("{base}standaloneEnabled=false")).ensemble.is_some());
}

#[test]
fn every_bad_value_is_reported_with_file_line_and_what_is_allowed() {
    let text = "tickTime=fast\nclientPort=99999\nforceSync=maybe\nquorumListenOnAllIPs=1";
    assert_eq!(
        Files::new().errors(text),
        [
            "zoo.cfg:1: tickTime: \"fast\" is not allowed: a whole number from 1 to 3600000",
            "zoo.cfg:3: forceSync: \"maybe\" is not allowed: yes or no or true or false",
            "zoo.cfg:2: clientPort: \"99999\" is not allowed: a whole number from 0 to 65535",
            "zoo.cfg:4: quorumListenOnAllIPs: \"1\" is not allowed: true or false",
        ]
    );
}

#[test]
fn a_missing_required_key_names_the_file() {
    let files = Files::new();
    files.write("myid", "1");
    let text = THREE.replace("initLimit=10\n", "").replace("syncLimit=5\n", "");
    let errors = files.errors(&text);
    assert_eq!(errors[0], "zoo.cfg: initLimit is not set: a whole number from 1");
    assert_eq!(errors[1], "zoo.cfg: syncLimit is not set: a whole number from 1");
}

#[test]
fn an_unknown_key_is_a_warning_with_its_line() {
    let loaded = Files::new().load("tickTime=2000\nclientPort=2181\nsnapcount=5").expect("valid");
    let warnings: Vec<_> = loaded.warnings.iter().map(ToString::to_string).collect();
    assert!(
        warnings.iter().any(|w| w.ends_with("zoo.cfg:3: unknown key snapcount: it has no effect")),
        "{warnings:?}"
    );
}

/// Fault: these were taken without a word, though what they ask for is not done.
#[test]
fn a_key_that_asks_for_what_is_not_done_is_a_warning_with_its_line() {
    for (line, default) in [
        ("connection_throttle_tokens=100", "connection_throttle_tokens=0"),
        ("largeRequestThreshold=1000", "largeRequestThreshold=-1"),
        ("nio.sessionlessCnxnTimeout=500", "nio.sessionlessCnxnTimeout=10000"),
        ("reconfigEnabled=true", "reconfigEnabled=false"),
    ] {
        let warnings = |line: &str| {
            let loaded = Files::new().load(&format!("clientPort=2181\n{line}")).expect("valid");
            loaded.warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let found = warnings(line);
        assert!(
            found[0].ends_with(&format!("zoo.cfg:2: {line} is not implemented yet: it has no effect")),
            "{found:?}"
        );
        assert_eq!(warnings(default), [""; 0], "the default asks for nothing");
    }
}

/// Fault: a bad value of a key that is read in two places was reported twice.
#[test]
fn nothing_is_reported_twice() {
    let errors = Files::new().errors("clientPort=2181\nobserverMasterPort=x\njute.maxbuffer=y");
    assert_eq!(errors.len(), 2, "{errors:?}");
}

#[test]
fn a_server_without_myid_or_absent_from_the_list_is_refused() {
    let files = Files::new();
    assert!(files.errors(THREE)[0].starts_with("myid: cannot be read"));
    files.write("myid", "9");
    assert_eq!(
        files.errors(THREE),
        ["zoo.cfg:5: there is no server.9, and myid says 9: there are server.1, server.2, server.3"]
    );
    files.write("myid", "first");
    assert_eq!(files.errors(THREE)[0], "myid:1: \"first\" is no server id: 0 to 255");
}

#[test]
fn whatever_asks_for_tls_or_sasl_refuses_to_start() {
    for line in [
        "sslQuorum=true",
        "secureClientPort=2281",
        "quorum.auth.enableSasl=true",
        "enforce.auth.enabled=true",
    ] {
        let errors = Files::new().errors(&format!("tickTime=2000\nclientPort=2181\n{line}"));
        assert!(errors[0].contains(line) && errors[0].starts_with("zoo.cfg:3"), "{errors:?}");
    }
    let off = "tickTime=2000\nclientPort=2181\nsslQuorum=false\nssl.quorum.keyStore.location=/k";
    let warnings = Files::new().load(off).expect("TLS is off").warnings;
    assert!(warnings[0].to_string().contains("ssl.quorum.keyStore.location has no effect"));
}

#[test]
fn defines_and_environment_are_read_and_the_file_wins() {
    let files = Files::new();
    let file = files
        .write("zoo.cfg", &format!("tickTime=2000\nsnapCount=7\ndataDir={}", files.dir.path().display()));
    let sources = Sources {
        file: Some(file),
        defines: vec!["zookeeper.snapCount=9".to_owned(), "jute.maxbuffer=4096".to_owned()],
        env_properties: Some("zookeeper.4lw.commands.whitelist=*\nzookeeper.commitLogCount=900".to_owned()),
        env_flags: vec!["-Xmx1g -Dzookeeper.admin.serverPort=9090 -Dfile.encoding=x".to_owned()],
    };
    let loaded = load(&sources).expect("valid");
    assert_eq!((loaded.config.peer.snap_count, loaded.config.client.max_buffer), (7, 4096));
    assert_eq!(loaded.config.words, WordList::All);
    assert_eq!((loaded.config.peer.commit_log_count, loaded.config.admin.address.port), (900, 9090));
    assert!(loaded.warnings.iter().any(|w| w.message.contains("snapCount is also set at -D (to \"9\")")));
}

#[test]
fn a_dynamic_file_gives_the_members_and_its_name_the_version() {
    let files = Files::new();
    files.write("myid", "1");
    let dynamic = files
        .write("zoo.cfg.dynamic.100000002", "server.1=a:2888:3888;2181\nserver.2=b:2888:3888;[::1]:2182");
    let base = format!("tickTime=2000\ninitLimit=5\nsyncLimit=2\ndynamicConfigFile={}", dynamic.display());
    let config = files.config(&base);
    let membership = config.peer.membership.expect("distributed");
    assert_eq!(membership.version, 0x1_0000_0002);
    assert_eq!(config.client.address.expect("from the line").to_string(), "0.0.0.0:2181");
    assert_eq!(&*membership.members[&zk_jute::ServerId(2)].text, "b:2888:3888:participant;[::1]:2182");
    let errors = files.errors(&format!("{base}\nserver.3=c:1:2"));
    assert!(errors[0].contains("server.3 must be in the dynamic configuration file"), "{errors:?}");
}

/// Fault: a file without `tickTime` was refused, which upstream runs with 3000 ms.
#[test]
fn an_unset_tick_time_is_upstreams_default() {
    let config = Files::new().config("clientPort=2181");
    assert_eq!(config.peer.tick_ms, 3000);
    assert_eq!((config.client.min_session_timeout, config.client.max_session_timeout), (6000, 60_000));
}

/// Fault: values below 0 were refused, which upstream takes for "off", "unlimited" or the default; client port 0 was
/// taken for "any port".
#[test]
fn negative_values_mean_what_they_mean_upstream() {
    let files = Files::new();
    files.write("myid", "1");
    let loaded = files
        .load(&format!(
            "{}autopurge.purgeInterval=-1\nautopurge.snapRetainCount=-1\nmaxClientCnxns=-1\nmaxCnxns=-1\n\
             observerMasterPort=-1\nclientPortListenBacklog=-2\nelectionPortBindRetry=-1\nclientPort=0\n\
             preAllocSize=-1\ntxnLogSizeLimitInKb=-2\nsnapSizeLimitInKb=-2",
            THREE.replace("clientPort=2181\n", "")
        ))
        .expect("valid");
    let config = loaded.config;
    assert_eq!((config.storage.purge_interval, config.storage.snap_retain_count), (None, 3));
    assert_eq!((config.client.max_per_ip, config.client.max_total), (0, 0));
    assert_eq!((config.client.address, config.client.backlog), (None, None));
    assert_eq!((config.net.observer_master_port, config.net.bind_retries), (None, Some(3)));
    assert!(!config.peer.observer_master);
    assert_eq!((config.storage.prealloc_bytes, config.storage.log_size_limit), (0, None));
    assert_eq!(config.peer.snap_size_limit, u64::MAX);
    let warned = |text: &str| loaded.warnings.iter().any(|warning| warning.message.contains(text));
    assert!(warned("snapRetainCount=-1 is too low") && warned("electionPortBindRetry=-1"));
}

/// Fault: `-Djute.maxbuffer=0x9fffff`, as many guides write it, was refused.
#[test]
fn numbers_are_read_in_hexadecimal_too_and_a_buffer_beyond_all_bounds_is_cut() {
    let base = "clientPort=2181\njute.maxbuffer=";
    assert_eq!(Files::new().config(&format!("{base}0x9fffff")).client.max_buffer, 0x9f_ffff);
    assert_eq!(Files::new().config(&format!("{base}2147483647")).client.max_buffer, 0x1fff_ffff);
    for bad in ["0x", "0x-5", "#+5", "0xfg"] {
        assert!(Files::new().errors(&format!("{base}{bad}"))[0].contains("is not allowed"), "{bad}");
    }
}

/// Fault: a line `version=`, as upstream writes it into `zoo.cfg.dynamic.next`, was refused; a version in a name was
/// seen behind `.dynamic.` only.
#[test]
fn the_version_of_a_dynamic_file_is_in_its_name_or_else_in_its_line() {
    let files = Files::new();
    files.write("myid", "1");
    let lines = "server.1=a:2888:3888;2181\nserver.2=b:2888:3888\n";
    let load = |name: &str, version: &str| {
        let dynamic = files.write(name, &format!("{lines}{version}"));
        let text = format!("initLimit=5\nsyncLimit=2\ndynamicConfigFile={}", dynamic.display());
        files.load(&text).map(|loaded| {
            let warned = loaded.warnings.iter().any(|warning| warning.message.contains("which wins"));
            (loaded.config.peer.membership.expect("distributed").version, warned)
        })
    };
    assert_eq!(load("zoo.cfg.dynamic.next", "version=1a00000003"), Ok((0x1a_0000_0003, false)));
    assert_eq!(load("zoo.cfg.dynamic", ""), Ok((0, false)));
    assert_eq!(load("members.b", ""), Ok((0xb, false)));
    assert_eq!(load("zoo.cfg.dynamic.5", "version=5"), Ok((5, false)));
    assert_eq!(load("zoo.cfg.dynamic.5", "version=6"), Ok((5, true)));
    let errors = load("zoo.cfg.dynamic", "version=new").expect_err("no number");
    assert!(
        errors[0].to_string().contains("zoo.cfg.dynamic:3: version: \"new\" is not allowed"),
        "{errors:?}"
    );
}

#[test]
fn groups_and_weights_make_a_hierarchy_and_must_cover_every_voter() {
    let files = Files::new();
    files.write("myid", "1");
    let config = files.config(&format!("{THREE}group.1=1:3\ngroup.2=2\nweight.2=0"));
    let members = config.peer.membership.expect("distributed").members;
    assert_eq!((members[&zk_jute::ServerId(2)].group, members[&zk_jute::ServerId(2)].weight), (Some(2), 0));
    assert!(files.errors(&format!("{THREE}group.1=1"))[0].contains("server.2 is in no group.N"));
}

#[test]
fn server_lines_are_read_in_every_form_and_written_canonically() {
    for (text, canonical) in [
        ("h:1:2", "h:1:2:participant"),
        ("h:1:2:observer", "h:1:2:observer"),
        ("h:1:2:PARTICIPANT;2181", "h:1:2:participant;0.0.0.0:2181"),
        ("[::1]:1:2;[::]:2181", "[::1]:1:2:participant;[::]:2181"),
        ("b:1:2|a:3:4:observer", "a:3:4|b:1:2:observer"),
    ] {
        let line = ServerLine::parse(text, true).expect(text);
        assert_eq!(line.to_string(), canonical);
        assert_eq!(ServerLine::parse(canonical, true).expect(canonical).to_string(), canonical);
    }
    for bad in [
        "h",
        "h:1",
        "h:1:1",
        "h:0:2",
        "h:1:2:king",
        "h:1:2:3:4",
        "::1:1:2",
        "h:1:2;x:y",
        ":1:2",
        "a:1:2:observer|b:1:2:participant",
    ] {
        assert!(ServerLine::parse(bad, true).is_err(), "{bad} must be refused");
    }
    assert!(ServerLine::parse("a:1:2|b:1:2", false).is_err());
    assert_eq!(parse_host_port("[fe80::1]:3888").expect("v6").host, "fe80::1");
}

#[test]
fn origins_without_lines_are_just_names() {
    assert_eq!(Origin::whole("-D").to_string(), "-D");
}

#[test]
fn the_example_files_are_accepted_without_a_warning() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(examples).expect("examples") {
        let path = entry.expect("entry").path();
        if path.extension().is_none_or(|extension| extension != "cfg") {
            continue;
        }
        seen += 1;
        let files = Files::new();
        files.write("myid", "1");
        let text = std::fs::read_to_string(&path).expect("text");
        let text = text.replace("/var/lib/zookeeper", &files.dir.path().display().to_string());
        let file = files.write("zoo.cfg", &text);
        let loaded = load(&Sources { file: Some(file), ..Sources::default() });
        let warnings = loaded.expect("accepted").warnings;
        assert!(warnings.is_empty(), "{}: {warnings:?}", path.display());
    }
    assert!(seen >= 2, "{seen} examples");
}
