//! Why a comparison is not as published, as far as the results of its two sides tell: where its ratio lies, and what of the machine each side used up.

use super::{About, Alike, Figure, Shape, figures};
use crate::ResultLine;
use crate::figures::{megabytes, short};
use crate::report::RunRecord;
use siltstone_base::env::DeviceModel;

/// Of what there is of cores and devices, as much as this is about all.
const ABOUT_ALL: f64 = 0.85;

/// Of the time of all clients, less than this spent waiting is nothing.
const LEAST_WAIT: f64 = 0.1;

/// Of the time of a run, less than this in which some thread waited for a core, or for the machine's own disk, is nothing.
const LEAST_PRESSURE: f64 = 0.25;

/// Fewer reads an operation are not told of.
const LEAST_READS: f64 = 0.1;

/// How engines call the syncs of their logs.
const SYNCS: [&str; 2] = ["rocksdb.wal.synced", "redo.syncs"];

/// Work that is still owed is told of from this part of what is on the device.
const LEAST_DEBT: f64 = 0.1;

/// Less data than this says little of amounts per row: what is there once, whatever the size, weighs too much.
const LITTLE_DATA: u64 = 64 << 20;

/// Cores that are busy where one thread works at a time, and background work takes little.
const ONE_BUSY: std::ops::RangeInclusive<f64> = 0.85..=1.2;

/// One sentence: where the ratio lies, then what is known of either side, and of those whose ratio it is relative to. It says no more than the results.
pub(super) fn why(
    of: &RunRecord,
    by: &RunRecord,
    relative_to: Option<([&RunRecord; 2], (f64, f64))>,
    ratio: f64,
    shape: &Shape,
) -> String {
    let (one, other) = (&of.result, &by.result);
    let is_itself = one.engine == other.engine;
    let has_memory = one.memory_bytes == other.memory_bytes || shape.alike == Alike::ButStep;
    let is_same = is_itself && one.threads == other.threads && one.device_load == other.device_load && has_memory;
    let name = |line: &ResultLine| match (is_itself && !is_same, line.device_load) {
        (true, Some(load)) => format!("{} (clients {}, load {load})", line.engine, line.threads),
        (true, None) if !has_memory => format!("{} ({} MB of memory)", line.engine, megabytes(line.memory_bytes)),
        (true, None) => format!("{} (clients {})", line.engine, line.threads),
        (false, _) => line.engine.clone(),
    };
    let (ours, theirs) = shape.published_amounts.filter(|_| shape.relative_to.is_none()).unzip();
    let (of, by) = ((of, shape.of.figure, ours), (by, shape.by.figure, theirs));
    let sides = if is_same { vec![of] } else { vec![of, by] };
    let others = relative_to.into_iter().flat_map(|(runs, _)| runs).map(|run| (run, shape.of.figure, None));
    let told = |(run, figure, published): (&RunRecord, Figure, Option<f64>)| {
        about(run, figure, shape, published).map(|about| format!("{} {about}", name(&run.result)))
    };
    let known: Vec<_> = sides.into_iter().chain(others).filter_map(told).collect();
    let about = match known.is_empty() {
        true => "the results tell of no limit".to_owned(),
        false => known.join("; "),
    };
    format!("{}: {about}.", direction(ratio, relative_to.map(|(_, ratios)| ratios), shape))
}

/// Where the ratio lies beside what was published, or beside the bounds.
fn direction(ratio: f64, ratios: Option<(f64, f64)>, shape: &Shape) -> String {
    if let Some((of, by)) = shape.relative_to {
        if let Some((ours, theirs)) = ratios.filter(|_| shape.is_between(ratio)) {
            let [ours, theirs] = [ours, theirs].map(|ratio| short(Some(ratio)));
            return format!(
                "Within the factor, and not the same side ahead: {} over {} is {ours}, {} over {} {theirs}",
                shape.of.engine, shape.by.engine, of.engine, by.engine
            );
        }
        let how = if ratio > 1.0 { "better" } else { "worse" };
        let (ours, theirs) = (shape.of.engine, shape.by.engine);
        return format!("{ours} does {how} beside {theirs} than {} beside {}", of.engine, by.engine);
    }
    let range = |least: f64, most: f64| match (short(Some(least)), short(Some(most))) {
        (least, most) if least == most => least,
        (least, most) => format!("{least} to {most}"),
    };
    // An engine beside itself does not lead.
    let leads = shape.of.engine != shape.by.engine;
    match shape.published {
        Some((least, most)) if leads && ((ratio > 1.0 && most < 1.0) || (ratio < 1.0 && least > 1.0)) => {
            format!("Not the same side leads as in the publication, which has {}", range(least, most))
        }
        Some((least, most))
            if is_shown_as(ratio, least) || is_shown_as(ratio, most) || (least..=most).contains(&ratio) =>
        {
            format!("As published, {}, and outside the bounds", range(least, most))
        }
        Some((least, most)) if ratio > most && shape.at_least.is_some_and(|asked| ratio < asked) => {
            format!(
                "More than the published {}, and less than the {} that is asked",
                range(least, most),
                short(shape.at_least)
            )
        }
        Some((least, most)) if ratio < least && shape.at_most.is_some_and(|asked| ratio > asked) => {
            format!(
                "Less than the published {}, and more than the {} that is asked",
                range(least, most),
                short(shape.at_most)
            )
        }
        Some((least, most)) if ratio < least => format!("Less than the published {}", range(least, most)),
        Some((least, most)) => format!("More than the published {}", range(least, most)),
        None => match shape.at_least {
            Some(least) if ratio < least => format!("Less than {}", short(Some(least))),
            _ => format!("More than {}", short(shape.at_most)),
        },
    }
}

/// Whether two numbers are the same to who reads them.
fn is_shown_as(one: f64, other: f64) -> bool {
    short(Some(one)) == short(Some(other))
}

/// What is known of a run that bears upon the figure, with what was published where it is an amount.
fn about(run: &RunRecord, figure: Figure, shape: &Shape, published: Option<f64>) -> Option<String> {
    let line = &run.result;
    let facts: Vec<_> = match shape.about {
        About::Speed => limits(line),
        About::Crossing => growth(run).into_iter().chain(limits(line)).collect(),
        About::Evenness => {
            let finer = || shape.finer.and_then(|(figure, _)| figure(run));
            let came_to = figure(run).or_else(finer).map(|figure| format!("came to {}", short(Some(figure))));
            let facts = [came_to, much_data(line, shape), delays(line), processor(line), transfer(line), pause(line)];
            facts.into_iter().flatten().collect()
        }
        About::Amount(unit, each) => {
            let published = published.map(|amount| format!(" (published: {})", short(Some(amount))));
            let amount = figure(run).map(|amount| short(Some(amount / f64::from(each))));
            let amount = amount.map(|amount| format!("has {amount} {unit}{}", published.unwrap_or_default()));
            // What counts until all is settled has it.
            let debt = debt(line).filter(|_| run.settling.is_none());
            [amount, debt, little_data(line)].into_iter().flatten().collect()
        }
    };
    if !facts.is_empty() {
        return Some(facts.join(" and "));
    }
    let (busy, cores) = cores(line)?;
    let syncs = if line.durability.as_deref() == Some("commit") { waits_for_syncs(line) } else { String::new() };
    let alone = match line.threads > 1 && cores > 1 && ONE_BUSY.contains(&busy) {
        true => format!(", as if its {} clients took turns,", line.threads),
        false => String::new(),
    };
    if is_server(line) {
        return Some(format!("kept {busy:.2} of {cores} cores busy{alone} beside the program that sends it SQL"));
    }
    Some(format!("kept {busy:.2} of {cores} cores busy{alone} and was near no limit that was measured{syncs}"))
}

/// What a run used up and what held it up; where it used up neither the cores nor its device, what threads waited for all the same.
fn limits(line: &ResultLine) -> Vec<String> {
    let used_up: Vec<_> = [processor(line), device(line)].into_iter().flatten().collect();
    let waits = if used_up.is_empty() { pressure(line) } else { None };
    used_up.into_iter().chain(delays(line)).chain(waits).collect()
}

/// Whether the run was of a server, whose clients are a program of their own: how much of the processor that had is not known.
fn is_server(line: &ResultLine) -> bool {
    line.provenance.as_ref().is_some_and(|provenance| provenance.peers.contains_key("mariadb"))
}

/// That every commit waited for a sync, and for how long, where the device is a modelled one.
fn waits_for_syncs(line: &ResultLine) -> String {
    let millis = model(line).map(|model| model.sync_micros as f64 * (1.0 + line.device_load.unwrap_or_default()) / 1e3);
    let time = millis.map(|millis| format!(" of {} ms or more", short(Some(millis))));
    format!(", and every commit waited for a sync{}", time.unwrap_or_default())
}

/// How many cores were busy on average, of how many.
fn cores(line: &ResultLine) -> Option<(f64, u32)> {
    let cores = line.provenance.as_ref()?.cores?;
    Some((line.cpu_s? / Some(line.seconds).filter(|seconds| *seconds > 0.0)?, cores))
}

/// What each row cost to write before the data exceeded memory, and afterwards: a tree that grows writes it more often.
fn growth(run: &RunRecord) -> Option<String> {
    let [before, after] = figures::written_beside_memory(run)?.map(|kilobytes| short(Some(kilobytes)));
    (before != after)
        .then(|| format!("wrote {before} KB a row before, while its tree was small, and {after} KB afterwards"))
}

fn processor(line: &ResultLine) -> Option<String> {
    let (busy, cores) = cores(line)?;
    (busy >= ABOUT_ALL * f64::from(cores)).then(|| format!("kept {busy:.2} of {cores} cores busy"))
}

/// What a device gives a run in a second, the part of another stream taken off.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Capacity {
    read_bytes: Option<f64>,
    written_bytes: Option<f64>,
    reads: Option<f64>,
    syncs: Option<f64>,
}

/// The modelled device of a run.
fn model(line: &ResultLine) -> Option<DeviceModel> {
    let name = line.device.as_deref()?;
    let models = [DeviceModel::fast_ssd(), DeviceModel::slow_ssd(), DeviceModel::hdd()];
    models.into_iter().find(|model| model.name == name)
}

/// That of a modelled device by its name, or that of limits of the kernel's by their words.
fn capacity(line: &ResultLine) -> Option<Capacity> {
    let name = line.device.as_deref()?;
    let left = 1.0 / (1.0 + line.device_load.unwrap_or_default());
    if let Some(model) = model(line) {
        return Some(Capacity {
            read_bytes: Some(model.read_bandwidth as f64 * left),
            written_bytes: Some(model.write_bandwidth as f64 * left),
            reads: Some(model.read_iops as f64 * left),
            syncs: Some(left * 1e6 / model.sync_micros.max(1) as f64),
        });
    }
    let limit = |unit: &str| name.split(", ").find_map(|part| part.strip_suffix(unit)?.trim().parse::<f64>().ok());
    let bytes = limit("MiB/s").map(|mebibytes| mebibytes * f64::from(1 << 20));
    let capacity = Capacity { read_bytes: bytes, written_bytes: bytes, reads: limit("reads/s"), syncs: None };
    (capacity != Capacity::default()).then_some(capacity)
}

/// What the device was busy with: one of the things that limit it or, where none of these is used up, all of them together.
fn device(line: &ResultLine) -> Option<String> {
    transfer(line).or_else(|| reads(line)).or_else(|| together(line))
}

/// Reads, writes and syncs stand in one queue.
fn together(line: &ResultLine) -> Option<String> {
    let capacity = capacity(line)?;
    let part = |amount: f64, most: Option<f64>| amount / line.seconds.max(1e-9) / most.unwrap_or(f64::INFINITY);
    let bytes_read = part(line.process_read.unwrap_or_default() as f64, capacity.read_bytes);
    let reading = part(line.reads_per_row.unwrap_or_default() * line.ops as f64, capacity.reads).max(bytes_read);
    let writing = part(line.process_written.unwrap_or_default() as f64, capacity.written_bytes);
    let syncing = part(syncs(line), capacity.syncs);
    (reading + writing + syncing >= ABOUT_ALL).then(|| {
        let [reading, writing, syncing] = [reading, writing, syncing].map(|part| part * 100.0);
        let each = line.reads_per_row.filter(|reads| *reads >= LEAST_READS);
        let each = each.map_or_else(String::new, |reads| format!(" ({} an operation)", short(Some(reads))));
        let (and, of_log) = match syncing >= 0.5 {
            true => (",", format!(" and with syncs of its log for {syncing:.0} %")),
            false => (" and", String::new()),
        };
        format!("kept its device busy with reads{each} for {reading:.0} % of the time{and} with writes for {writing:.0} %{of_log}")
    })
}

/// How often the log was synced.
fn syncs(line: &ResultLine) -> f64 {
    SYNCS.iter().filter_map(|name| line.counters.get(*name)).sum::<u64>() as f64
}

/// How long some thread of the machine waited for one of the cores, though they were not all busy on the average, and for its own disk, also beneath a modelled device, whose times go by beside
/// it. The longer wait comes first.
fn pressure(line: &ResultLine) -> Option<String> {
    let mut waits = [("a core", line.cpu_pressure_us), ("the machine's own disk", line.io_pressure_us)]
        .map(|(what, micros)| (what, micros.unwrap_or_default() as f64 / (line.seconds * 1e6).max(1e-9)));
    waits.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let long = waits.into_iter().filter(|(_, part)| *part >= LEAST_PRESSURE);
    let told: Vec<_> = long.map(|(what, part)| format!("for {what} for {:.0} %", part.min(1.0) * 100.0)).collect();
    let ran = || format!("ran while some thread of the machine waited {} of the time", told.join(" and "));
    (!told.is_empty()).then(ran)
}

fn transfer(line: &ResultLine) -> Option<String> {
    let capacity = capacity(line)?;
    let full = |bytes: Option<u64>, most: Option<f64>, verb: &str| {
        let (rate, most) = (bytes? as f64 / line.seconds.max(1e-9), most?);
        let (shown, of) = (short(Some(rate / 1e6)), short(Some(most / 1e6)));
        (rate >= ABOUT_ALL * most).then(|| format!("{verb} {shown} of the {of} MB/s that its device gave it"))
    };
    full(line.process_written, capacity.written_bytes, "wrote")
        .or_else(|| full(line.process_read, capacity.read_bytes, "read"))
}

fn reads(line: &ResultLine) -> Option<String> {
    let most = capacity(line)?.reads?;
    let reads = line.reads_per_row? * line.ops as f64 / line.seconds.max(1e-9);
    let (shown, of) = (short(Some(reads)), short(Some(most)));
    (reads >= ABOUT_ALL * most).then(|| format!("made {shown} of the {of} reads a second that its device gave it"))
}

/// The largest cause for which clients were held up, and how long they were for all of them.
fn delays(line: &ResultLine) -> Option<String> {
    let causes = line.stall_us.as_ref()?;
    let (cause, _) = causes.iter().max_by_key(|(_, micros)| **micros)?;
    let time = line.seconds * 1e6 * f64::from(line.threads.max(1));
    let part = causes.values().sum::<u64>() as f64 / time.max(1e-9);
    (part >= LEAST_WAIT)
        .then(|| format!("held its clients up for {:.0} % of their time, most of it for {cause}", part * 100.0))
}

/// How much data there was for the memory, where sides end when their time is over, with as much as they got to.
fn much_data(line: &ResultLine, shape: &Shape) -> Option<String> {
    let (data, memory) = line.data_bytes.zip(line.memory_bytes.filter(|bytes| *bytes > 0))?;
    let times = short(Some(data as f64 / memory as f64));
    shape.of.runs.may_end_early.then(|| format!("had {times} times as much data as memory in the end"))
}

/// A pause of the machine's own.
fn pause(line: &ResultLine) -> Option<String> {
    let micros = line.machine_pause_us.filter(|micros| *micros >= 1e5)?;
    Some(format!("met a pause of the machine of {:.1} s", micros / 1e6))
}

/// Compactions that were still to be done.
fn debt(line: &ResultLine) -> Option<String> {
    let (debt, space) = (line.debt_bytes? as f64, line.space_bytes? as f64);
    (space > 0.0 && debt >= LEAST_DEBT * space)
        .then(|| format!("still owed compactions of {} MB", short(Some(debt / 1e6))))
}

/// Data so small that what is there once outweighs what grows with it.
fn little_data(line: &ResultLine) -> Option<String> {
    let bytes = line.data_bytes.filter(|bytes| *bytes < LITTLE_DATA)? as f64;
    Some(format!("had but {} MB of data", short(Some(bytes / 1e6))))
}
