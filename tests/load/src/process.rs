//! What the kernel says of the server's processes: CPU seconds and resident memory, from `/proc`.

use anyhow::{Context, Result};
use std::fs;

/// CPU seconds, user and system, that `pids` have used since they started.
pub(crate) fn cpu_seconds(pids: &[u32]) -> Result<f64> {
    let hertz = rustix::param::clock_ticks_per_second() as f64;
    let mut ticks = 0;
    for pid in pids {
        let path = format!("/proc/{pid}/stat");
        let stat = fs::read_to_string(&path).with_context(|| path.clone())?;
        ticks += cpu_ticks(&stat).with_context(|| format!("{path}: utime and stime"))?;
    }
    Ok(ticks as f64 / hertz)
}

/// Sum of utime and stime: fields 14 and 15, counted after the name, which may itself hold blanks and brackets.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

/// Resident memory of each of `pids`, in KiB.
pub(crate) fn resident_kib(pids: &[u32]) -> Result<Vec<u64>> {
    let one = |pid: &u32| {
        let path = format!("/proc/{pid}/status");
        let status = fs::read_to_string(&path).with_context(|| path.clone())?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        kib.with_context(|| format!("{path}: VmRSS"))
    };
    pids.iter().map(one).collect()
}

/// CPU seconds that the whole machine was busy, all processes together, since it started.
pub(crate) fn machine_busy_seconds() -> Result<f64> {
    let hertz = rustix::param::clock_ticks_per_second() as f64;
    let stat = fs::read_to_string("/proc/stat").context("/proc/stat")?;
    let first = stat.lines().next().unwrap_or_default();
    let fields: Vec<u64> = first.split_whitespace().skip(1).filter_map(|f| f.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal: all but the fourth and the fifth.
    let busy: u64 =
        fields.iter().enumerate().take(8).filter(|(i, _)| *i != 3 && *i != 4).map(|(_, v)| v).sum();
    Ok(busy as f64 / hertz)
}

#[cfg(test)]
mod tests {
    use super::{cpu_seconds, cpu_ticks, resident_kib};

    #[test]
    fn a_process_name_with_blanks_and_brackets_does_not_shift_the_fields() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4 10 0 0 0 30 12 0 0 20 0 1 0 5";
        assert_eq!(cpu_ticks(stat), Some(42));
    }

    #[test]
    fn this_process_has_memory_and_a_gone_one_is_an_error() {
        assert!(resident_kib(&[std::process::id()]).expect("this process")[0] > 0);
        assert!(cpu_seconds(&[u32::MAX]).is_err());
    }
}
