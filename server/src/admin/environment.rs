//! `envi`: upstream's list of the surroundings, with `<NA>` where it speaks of Java.

/// Key and value, in upstream's order.
pub(super) fn environment() -> Vec<(&'static str, String)> {
    let na = || "<NA>".to_owned();
    let uname = rustix::system::uname();
    let text = |value: &std::ffi::CStr| value.to_string_lossy().into_owned();
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| na());
    let memory = memory_mb();
    vec![
        ("zookeeper.version", super::FULL_VERSION.to_owned()),
        ("host.name", text(uname.nodename())),
        ("java.version", na()),
        ("java.vendor", na()),
        ("java.home", na()),
        ("java.class.path", na()),
        ("java.library.path", na()),
        ("java.io.tmpdir", std::env::temp_dir().display().to_string()),
        ("java.compiler", na()),
        ("os.name", text(uname.sysname())),
        ("os.arch", text(uname.machine())),
        ("os.version", text(uname.release())),
        ("user.name", variable("USER")),
        ("user.home", variable("HOME")),
        ("user.dir", std::env::current_dir().map_or_else(|_| na(), |dir| dir.display().to_string())),
        ("os.memory.free", memory.0),
        ("os.memory.max", memory.1.clone()),
        ("os.memory.total", memory.1),
    ]
}

/// Available and total memory of the machine.
fn memory_mb() -> (String, String) {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let read = |key: &str| {
        let line = info.lines().find(|line| line.starts_with(key))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    let show = |key| read(key).map_or_else(|| "<NA>".to_owned(), |kib| format!("{}MB", kib / 1024));
    (show("MemAvailable:"), show("MemTotal:"))
}
