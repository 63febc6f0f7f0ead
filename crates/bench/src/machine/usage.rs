//! What the process used, as Linux counts it.

use super::{proc_file, proc_number, proc_text};

/// Ticks of `/proc/self/stat` in a second. Linux has reported 100 on every architecture for decades.
const TICKS_PER_SECOND: f64 = 100.0;

/// What the process used so far. `None` where the system does not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ProcessUsage {
    /// CPU seconds of all threads.
    pub cpu_s: Option<f64>,
    /// Of those, in the program itself.
    pub user_cpu_s: Option<f64>,
    /// Of those, in the kernel.
    pub system_cpu_s: Option<f64>,
    /// How often threads gave up their processor to wait. Of the threads that are there: the kernel keeps nothing of those that have ended.
    pub voluntary_context_switches: Option<u64>,
    /// How often threads were made to give up their processor; of the same threads.
    pub involuntary_context_switches: Option<u64>,
    /// Page faults that had to wait for a device.
    pub major_page_faults: Option<u64>,
    /// System calls that read.
    pub read_syscalls: Option<u64>,
    /// System calls that write.
    pub write_syscalls: Option<u64>,
    /// Bytes that reached the device layer for writing.
    pub written: Option<u64>,
    /// Bytes that came from the device layer.
    pub read: Option<u64>,
    /// Microseconds in which at least one thread of the machine, of this process or of another, waited for a processor.
    pub cpu_pressure_us: Option<u64>,
    /// Microseconds in which at least one thread of the machine waited for I/O.
    pub io_pressure_us: Option<u64>,
    /// Resident memory in megabytes.
    pub rss_mb: Option<f64>,
}

impl ProcessUsage {
    /// What was used until now.
    pub fn now() -> Self {
        let stat = proc_file("stat").as_deref().and_then(Stat::parse);
        let io = Io::now();
        let switches = context_switches();
        let status = proc_file("status");
        let pressure = |of: &str| proc_text(&format!("pressure/{of}")).as_deref().and_then(some_pressure);
        Self {
            cpu_s: stat.map(|stat| stat.user_s + stat.system_s),
            user_cpu_s: stat.map(|stat| stat.user_s),
            system_cpu_s: stat.map(|stat| stat.system_s),
            voluntary_context_switches: switches.map(|switches| switches.voluntary),
            involuntary_context_switches: switches.map(|switches| switches.involuntary),
            major_page_faults: stat.map(|stat| stat.major_page_faults),
            read_syscalls: io.read_syscalls,
            write_syscalls: io.write_syscalls,
            written: io.written,
            read: io.read,
            cpu_pressure_us: pressure("cpu"),
            io_pressure_us: pressure("io"),
            rss_mb: status.as_deref().and_then(|text| proc_number(text, "VmRSS:")).map(|kb| kb as f64 * 1024.0 / 1e6),
        }
    }

    /// Bytes written to and read from the device layer until now.
    pub(crate) fn io() -> (Option<u64>, Option<u64>) {
        let io = Io::now();
        (io.written, io.read)
    }

    /// What was used since `earlier`. Resident memory is that of `self`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let seconds = |of: fn(&Self) -> Option<f64>| of(self).zip(of(earlier)).map(|(now, then)| now - then);
        let count = |of: fn(&Self) -> Option<u64>| {
            let both = of(self).zip(of(earlier));
            both.map(|(now, then)| now.saturating_sub(then))
        };
        Self {
            cpu_s: seconds(|usage| usage.cpu_s),
            user_cpu_s: seconds(|usage| usage.user_cpu_s),
            system_cpu_s: seconds(|usage| usage.system_cpu_s),
            voluntary_context_switches: count(|usage| usage.voluntary_context_switches),
            involuntary_context_switches: count(|usage| usage.involuntary_context_switches),
            major_page_faults: count(|usage| usage.major_page_faults),
            read_syscalls: count(|usage| usage.read_syscalls),
            write_syscalls: count(|usage| usage.write_syscalls),
            written: count(|usage| usage.written),
            read: count(|usage| usage.read),
            cpu_pressure_us: count(|usage| usage.cpu_pressure_us),
            io_pressure_us: count(|usage| usage.io_pressure_us),
            rss_mb: self.rss_mb,
        }
    }
}

/// What `/proc/self/stat` says of all threads, those that have ended included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stat {
    pub(super) major_page_faults: u64,
    pub(super) user_s: f64,
    pub(super) system_s: f64,
}

impl Stat {
    pub(super) fn parse(text: &str) -> Option<Self> {
        // The command's name may hold anything but ends at the last parenthesis. Major faults are field 12, user and system time 14 and 15.
        let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(9);
        let major_page_faults = fields.next()?.parse().ok()?;
        let mut ticks = fields.skip(1).map(str::parse::<f64>);
        let (user, system) = (ticks.next()?.ok()?, ticks.next()?.ok()?);
        Some(Self { major_page_faults, user_s: user / TICKS_PER_SECOND, system_s: system / TICKS_PER_SECOND })
    }
}

/// What `/proc/self/io` says.
struct Io {
    read_syscalls: Option<u64>,
    write_syscalls: Option<u64>,
    written: Option<u64>,
    read: Option<u64>,
}

impl Io {
    fn now() -> Self {
        let io = proc_file("io");
        let number = |field| io.as_deref().and_then(|text| proc_number(text, field));
        Self {
            read_syscalls: number("syscr:"),
            write_syscalls: number("syscw:"),
            written: number("write_bytes:"),
            read: number("read_bytes:"),
        }
    }
}

/// How often a thread, or several, gave up their processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Switches {
    pub(super) voluntary: u64,
    pub(super) involuntary: u64,
}

impl Switches {
    /// Of the thread whose `status` this is.
    pub(super) fn parse(status: &str) -> Option<Self> {
        let voluntary = proc_number(status, "voluntary_ctxt_switches:")?;
        Some(Self { voluntary, involuntary: proc_number(status, "nonvoluntary_ctxt_switches:")? })
    }

    fn plus(self, other: Self) -> Self {
        Self { voluntary: self.voluntary + other.voluntary, involuntary: self.involuntary + other.involuntary }
    }
}

/// Those of all threads that are there: what `/proc/self/status` has is that of the first thread alone.
#[expect(clippy::disallowed_methods, reason = "directories of /proc are no directories of a database")]
fn context_switches() -> Option<Switches> {
    let threads = std::fs::read_dir("/proc/self/task").ok()?;
    // A thread that ends meanwhile is not counted.
    let of_threads = threads.flatten().filter_map(|thread| {
        let status = proc_file(&format!("task/{}/status", thread.file_name().to_string_lossy()))?;
        Switches::parse(&status)
    });
    of_threads.reduce(Switches::plus)
}

/// The microseconds in which at least one thread waited, from a file of `/proc/pressure`.
pub(super) fn some_pressure(text: &str) -> Option<u64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split_whitespace().find_map(|part| part.strip_prefix("total="))?.parse().ok()
}
