//! The `process_*` series that Prometheus clients export (upstream `exportJvmInfo`, without the Java part).

use super::monitor::Number;
use crate::clock::wall_ms;

/// Name, kind and value. What `/proc` does not tell is left out.
pub(super) fn series() -> Vec<(&'static str, &'static str, Number)> {
    let Some(stat) = Stat::read() else { return Vec::new() };
    let ticks = rustix::param::clock_ticks_per_second().max(1) as f64;
    let page = rustix::param::page_size() as u64;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let seconds = |count: u64| Number::Fraction(count as f64 / ticks);
    let mut found = vec![
        ("process_cpu_seconds_total", "counter", seconds(stat.field(14) + stat.field(15))),
        ("process_open_fds", "gauge", Number::of(open)),
        ("process_max_fds", "gauge", Number::of(limit.unwrap_or(u64::MAX))),
        ("process_virtual_memory_bytes", "gauge", Number::of(stat.field(23))),
        ("process_resident_memory_bytes", "gauge", Number::of(stat.field(24) * page)),
    ];
    if let Some(up) = system_uptime_seconds() {
        let age = up - stat.field(22) as f64 / ticks;
        let start = wall_ms() as f64 / 1000.0 - age;
        found.push((
            "process_start_time_seconds",
            "gauge",
            Number::Fraction((start * 100.0).round() / 100.0),
        ));
    }
    found
}

/// `/proc/self/stat`.
struct Stat {
    /// From the third field on.
    fields: Vec<u64>,
}

impl Stat {
    fn read() -> Option<Self> {
        let text = std::fs::read_to_string("/proc/self/stat").ok()?;
        // The second field is the command in parentheses, which may hold anything.
        let (_, rest) = text.rsplit_once(')')?;
        Some(Self { fields: rest.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect() })
    }

    /// By its number in proc(5).
    fn field(&self, number: usize) -> u64 {
        self.fields.get(number - 3).copied().unwrap_or(0)
    }
}

fn system_uptime_seconds() -> Option<f64> {
    std::fs::read_to_string("/proc/uptime").ok()?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_a_start_in_the_recent_past() {
        let found = series();
        let value = |name: &str| match found
            .iter()
            .find(|(known, _, _)| *known == name)
            .map(|(_, _, value)| *value)
        {
            Some(Number::Whole(value)) => value as f64,
            Some(Number::Fraction(value)) => value,
            None => panic!("{name} is missing"),
        };
        assert!(value("process_resident_memory_bytes") > 1e6);
        let age = wall_ms() as f64 / 1000.0 - value("process_start_time_seconds");
        assert!((-1.0..3600.0).contains(&age), "{age}");
    }
}
