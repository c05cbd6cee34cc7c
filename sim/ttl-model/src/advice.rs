//! Which setting to take, and why; or that none meets the targets.
//!
//! Invariant: a setting is advised only if its upper bounds meet every target, not merely its best estimates.

use std::cmp::Reverse;

use crate::format::{NEVER, at_most, often, time};
use crate::tuning::{Advice, Point, Protection, TargetStatus, Targets};

/// Records which targets each setting misses.
pub fn judge(points: &mut [Point], targets: &Targets) {
    for point in points {
        let mut misses = Vec::new();
        if point.unfinished {
            point.misses = vec!["unfinished: not simulated to the end".to_owned()];
            continue;
        }
        if point.effect.per_day_high > targets.overlaps_per_day {
            misses.push(format!(
                "overlaps: {}",
                up_to(point.effect.per_day_high, targets.overlaps_per_day)
            ));
        }
        if point.keeping.is_tracked() && point.wrong.per_day_high > targets.lost_per_day {
            misses.push(format!(
                "lost holds: {}",
                up_to(point.wrong.per_day_high, targets.lost_per_day)
            ));
        }
        if point.takeover.p99_high > targets.takeover {
            let (found, wanted) = (time(point.takeover.p99_high), time(targets.takeover));
            // A value that rounds to the target exceeds it nevertheless.
            let beyond = if found == wanted { "just over " } else { "" };
            misses.push(format!("takeover: {beyond}{found}"));
        }
        let missed = point.skips.map_or(0, |it| it.missed_p99);
        if targets.missed.is_some_and(|wanted| missed > wanted) {
            misses.push(format!("missed runs: up to {missed} after a crash"));
        }
        point.misses = misses;
    }
}

/// A rate that is higher than its target, also where both are the same in two digits.
fn up_to(per_day: f64, wanted: f64) -> String {
    match often(per_day) {
        found if found == NEVER => format!("{found}, but more often than the target"),
        found if found == often(wanted) => format!("just over {found}"),
        found => format!("up to {found}"),
    }
}

/// The targets that a setting misses, in a sentence; empty where it misses none.
fn missed(point: &Point) -> String {
    let each = point.misses.iter().map(|it| match it.split_once(": ") {
        Some((target, found)) => format!("{target} ({found})"),
        None => it.clone(),
    });
    let each: Vec<String> = each.collect();
    match &each[..] {
        [] => String::new(),
        [one] => format!("the target for {one}"),
        [first @ .., last] => format!("the targets for {} and {last}", first.join(", ")),
    }
}

/// How a setting is chosen among those that meet the targets.
const OBJECTIVE: &str = "among the settings that meet every target: no renewal first, then the fewest renewals, then the \
                         fastest takeover after a crash";
/// The same where clients skip.
const OBJECTIVE_OF_SKIPS: &str = "among the settings that meet every target: no renewal first, then the fewest \
                                  renewals, then the fewest runs missed after a crash, then the shortest TTL";

/// The cheapest setting that meets the targets, in the order of `OBJECTIVE`.
pub fn advise(points: &[Point], targets: &Targets, keeping: Protection) -> Advice {
    let of_kind = |it: &(usize, &Point)| it.1.keeping == keeping && !it.1.unfinished;
    let all: Vec<(usize, &Point)> = points.iter().enumerate().filter(of_kind).collect();
    // Of skipped runs the number counts, not when in its interval the next one begins.
    let delay = |it: &Point| match it.skips {
        Some(skips) => (skips.missed_p99, it.ttl),
        None => (0, it.takeover.p99_high),
    };
    let cheapest = |a: &&(usize, &Point), b: &&(usize, &Point)| {
        // Without renewal there is no watchdog that could fail, however rarely it would have to act.
        let cost = a.1.renew.is_some().cmp(&b.1.renew.is_some());
        let cost = cost.then(a.1.renewals_per_second.total_cmp(&b.1.renewals_per_second));
        cost.then(delay(a.1).cmp(&delay(b.1))).then(a.0.cmp(&b.0))
    };
    match all.iter().filter(|it| it.1.meets()).min_by(cheapest) {
        Some(&(place, point)) => met(&all, place, point, targets),
        None if points.iter().any(|it| it.unfinished) => unfinished(),
        None => unmet(points, &all, targets, keeping),
    }
}

/// No finished setting meets the targets, and some are unfinished.
fn unfinished() -> Advice {
    Advice {
        answer: TargetStatus::Unknown,
        point: None,
        says: "no finished setting meets all targets, and some are unfinished".to_owned(),
        objective: String::new(),
        because: vec![
            "let the simulation finish, or give fewer settings with --ttl and --renew".to_owned(),
        ],
    }
}

fn renewals(point: &Point) -> String {
    let (middle, high) = (point.renewals_per_second, point.renewals_per_second_high);
    let figure = |number: f64| match number {
        ..0.001 => "less than 0.001".to_owned(),
        0.001..10.0 => format!("{number:.3}"),
        _ => format!("{number:.1}"),
    };
    match (figure(middle), figure(high)) {
        (middle, high) if middle == high => format!("{middle} renewals per second"),
        (middle, high) => format!("{middle} renewals per second, at most {high}"),
    }
}

fn setting(point: &Point) -> String {
    match point.renew {
        Some(every) => format!("a TTL of {}, renewed every {}", time(point.ttl), time(every)),
        None => format!("a TTL of {}, without renewal", time(point.ttl)),
    }
}

fn figures(point: &Point, targets: &Targets) -> Vec<String> {
    let mut said = vec![match point.keeping {
        Protection::Fenced => "overlaps: none, provided the resource rejects old tokens".to_owned(),
        _ => format!(
            "overlaps: {} (target: {})",
            at_most(point.effect.per_day_high),
            targets.overlaps
        ),
    }];
    if point.keeping.is_tracked() {
        said.push(format!(
            "holds that lose the lock before their work is done: {} (target: {})",
            at_most(point.wrong.per_day_high),
            targets.lost
        ));
    }
    said.push(format!(
        "after a crash {} within {} in 99 % of cases, {} on average (target: {})",
        if point.skips.is_some() { "the next run begins" } else { "a waiting client has the lock" },
        time(point.takeover.p99_high),
        time(point.takeover.mean),
        time(targets.takeover)
    ));
    if let Some(skips) = point.skips {
        let wanted = targets.missed.map_or(String::new(), |it| format!(" (target: {it})"));
        said.push(format!(
            "a crash misses {:.2} runs on average, at most {} in 99 % of cases{wanted}",
            skips.missed, skips.missed_p99
        ));
        said.push(format!(
            "{:.1} % of all runs find the lock taken and are skipped",
            skips.share * 100.0
        ));
    }
    said
}

fn met(all: &[(usize, &Point)], place: usize, point: &Point, targets: &Targets) -> Advice {
    let mut because = figures(point, targets);
    because.push(match point.renew {
        None => "cost: no renewals".to_owned(),
        Some(_) => format!("cost: {}, over all clients", renewals(point)),
    });
    // The next shorter TTL explains why it cannot be shorter.
    let renewal = if point.renew.is_some() { "with renewal" } else { "without renewal" };
    let same = |it: &&(usize, &Point)| {
        it.1.ttl < point.ttl && it.1.renew.is_some() == point.renew.is_some()
    };
    if let Some((_, shorter)) = all.iter().filter(same).max_by_key(|it| it.1.ttl) {
        match missed(shorter) {
            misses if !misses.is_empty() => because.push(format!(
                "a shorter TTL {renewal} is not enough: {}, misses {misses}{}",
                setting(shorter),
                match is_guessed(shorter, targets) {
                    true => "; its best estimate meets the targets, so more --holds, or more measured values, may show that it is enough",
                    false => "",
                }
            )),
            _ if shorter.renewals_per_second > point.renewals_per_second => because.push(format!(
                "a shorter TTL also meets the targets but costs more: {} needs {}",
                setting(shorter),
                renewals(shorter)
            )),
            _ => {}
        }
    }
    if point.renew.is_none() {
        let sooner = all.iter().filter(|it| {
            let sooner = it.1.takeover.p99_high < point.takeover.p99_high && it.1.ttl < point.ttl;
            // Clients that skip gain nothing: the next run begins at the next tick.
            it.1.renew.is_some() && it.1.meets() && it.1.skips.is_none() && sooner
        });
        if let Some((_, sooner)) = sooner.min_by_key(|it| (it.1.takeover.p99_high, it.0)) {
            because.push(format!(
                "a shorter TTL with renewal also meets the targets: {} needs {}, with a takeover within {}",
                setting(sooner),
                renewals(sooner),
                time(sooner.takeover.p99_high)
            ));
        }
    }
    if point.renew.is_some() {
        let unrenewed = all.iter().filter(|it| it.1.renew.is_none());
        let near = unrenewed.min_by_key(|it| {
            (it.1.takeover.p99_high > targets.takeover, it.1.misses.len(), Reverse(it.1.ttl))
        });
        if let Some((_, near)) = near {
            because.push(format!("renewal is needed: {}, misses {}", setting(near), missed(near)));
        }
    }
    Advice {
        answer: TargetStatus::Met,
        point: Some(place),
        says: format!("take {}", setting(point)),
        objective: if point.skips.is_some() { OBJECTIVE_OF_SKIPS } else { OBJECTIVE }.to_owned(),
        because,
    }
}

/// Whether the best estimates of a setting meet the targets, whatever their upper bounds are.
fn is_guessed(point: &Point, targets: &Targets) -> bool {
    point.effect.per_day <= targets.overlaps_per_day
        && (!point.keeping.is_tracked() || point.wrong.per_day <= targets.lost_per_day)
        && point.takeover.p99 <= targets.takeover
        && targets.missed.is_none_or(|most| point.skips.is_none_or(|it| it.missed_p99 <= most))
}

fn unmet(
    points: &[Point],
    all: &[(usize, &Point)],
    targets: &Targets,
    keeping: Protection,
) -> Advice {
    let overlaps = |it: &Point| it.effect.per_day_high <= targets.overlaps_per_day;
    let guessed = |it: &Point| is_guessed(it, targets);
    let answer = match () {
        () if all.iter().any(|it| guessed(it.1)) => TargetStatus::Unknown,
        () if all.iter().any(|it| overlaps(it.1)) => TargetStatus::TooSlow,
        () => TargetStatus::TooManyOverlaps,
    };
    // The factor by which the worse rate misses its target.
    let over = |it: &Point| {
        let times = |high: f64, wanted: f64| high / wanted.max(f64::MIN_POSITIVE);
        let lost = if it.keeping.is_tracked() { it.wrong.per_day_high } else { 0.0 };
        times(it.effect.per_day_high, targets.overlaps_per_day)
            .max(times(lost, targets.lost_per_day))
            .max(1.0)
    };
    // If a best estimate meets the targets, report that setting.
    let near = all.iter().filter(|it| answer != TargetStatus::Unknown || guessed(it.1));
    let nearest = near.min_by(|a, b| {
        let (a, b) = (a.1, b.1);
        let fewer = a.misses.len().cmp(&b.misses.len());
        let rarer = a.effect.per_day_high.total_cmp(&b.effect.per_day_high);
        let late = |it: &Point| it.takeover.p99_high > targets.takeover;
        let sooner = a.takeover.p99.cmp(&b.takeover.p99);
        let closer = late(a).cmp(&late(b)).then(over(a).total_cmp(&over(b))).then(sooner);
        fewer.then(if answer == TargetStatus::TooManyOverlaps { rarer } else { closer })
    });
    let mut because = Vec::new();
    if let Some((_, point)) = nearest {
        because.push(format!("the closest is {}, which misses {}", setting(point), missed(point)));
    }
    let misses =
        |target: &str| all.iter().flat_map(|it| &it.1.misses).any(|it| it.starts_with(target));
    let (overlap, lose) = (misses("overlaps"), misses("lost holds"));
    let block = misses("takeover") || misses("missed runs");
    let (says, why) = match answer {
        TargetStatus::Unknown => (
            "the data are insufficient for these targets",
            "its best estimate meets the targets, but its upper bound does not: measure for longer, raise --holds, or give a \
             distribution that you trust, such as lognormal:5ms,p99=80ms; beyond the longest measured value only an upper \
             bound of the frequency is known",
        ),
        TargetStatus::TooSlow => (
            "no setting meets all targets at once",
            match (overlap || lose, block) {
                (true, true) => {
                    "a longer TTL makes overlaps and lost holds rarer, but then a crashed holder blocks the others for longer"
                }
                (true, false) => {
                    "a longer TTL or renewal makes overlaps and lost holds rarer: give others with --ttl and --renew"
                }
                (false, _) => {
                    "under a shorter TTL a crashed holder blocks the others for less long: give shorter ones with --ttl, or \
                     loosen --takeover"
                }
            },
        ),
        _ => ("no TTL makes overlaps rare enough", ""),
    };
    because.extend(Some(why.to_owned()).filter(|why| !why.is_empty()));
    let fencing = if keeping == Protection::Fenced { lose } else { overlap };
    if answer != TargetStatus::Unknown && fencing {
        because.push(fence(points, keeping));
    }
    let objective = String::new();
    Advice { answer, point: nearest.map(|it| it.0), says: says.to_owned(), objective, because }
}

fn fence(points: &[Point], keeping: Protection) -> String {
    if keeping == Protection::Fenced {
        return "fencing protects the resource at any TTL, but not the work: split it into shorter holds, or relax --lost"
            .to_owned();
    }
    let fenced = points.iter().filter(|it| it.keeping == Protection::Fenced && it.meets());
    let cheapest = fenced.min_by(|a, b| {
        a.renewals_per_second
            .total_cmp(&b.renewals_per_second)
            .then(a.takeover.p99.cmp(&b.takeover.p99))
    });
    let with = cheapest
        .map_or(String::new(), |it| format!(", and {} then meets all targets", setting(it)));
    format!(
        "use fencing: a resource that rejects tokens lower than the highest it has seen is safe whatever the lock does{with}"
    )
}

#[cfg(test)]
mod tests;
