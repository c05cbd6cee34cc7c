//! One part of a matrix, for `picklock merge`, and all of them together.

use std::collections::BTreeMap;
use std::sync::Arc;

use harness::partition::Partition;
use scenarios::matrix::{Matrix, Pair};
use scenarios::scenario::Scenario;

use super::live::on_server;
use super::{Asked, MatricesFound, PairCounts, on_virtual_time, write_report};
use crate::args::{MatrixArgs, World};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::shard::{PartFound, Question, Shard, ShardFile, refuse_changed};
use crate::terminal::Terminal;
use crate::{print, signal, world};

/// Runs one part of the matrix, and keeps its findings for `merge`. The exit code says whether all was done, and
/// nothing of the findings.
pub(super) fn run(args: &MatrixArgs, asked: &Asked, terminal: &Terminal) -> Result<Exit, Failure> {
    world::refuse_several(&args.server)?;
    let nothing = PartFound::Matrix { server: None, pairs: BTreeMap::new() };
    let mut file = ShardFile::open(&args.shard, asked.question(args)?, nothing)?;
    let partition = args.shard.partition.unwrap_or(Partition::WHOLE);
    let named = (0..)
        .zip(&asked.pairs)
        .map(|(place, pair)| (place, format!("{} {}", pair.name, pair.lock.recipe), pair));
    let mine: Vec<(u64, Arc<Scenario>)> = named
        .filter(|(place, name, _)| partition.takes(*place, name.as_bytes()))
        .map(|(place, _, pair)| (place, Arc::clone(pair)))
        .collect();
    let runtime = world::runtime()?;
    let mut interrupted = false;
    while !interrupted {
        let done = file.pairs()?;
        let left = mine.iter().filter(|(place, _)| !done.contains_key(place));
        // The live worlds run many pairs at a time, but the last of a batch alone. So all are one batch.
        let size = if args.world == World::Virtual { file.batch_size() } else { u64::MAX };
        let batch: Vec<_> =
            left.take(usize::try_from(size).unwrap_or(usize::MAX)).cloned().collect();
        if batch.is_empty() {
            file.shard.complete = true;
            break;
        }
        let pairs = batch.iter().map(|(_, pair)| Arc::clone(pair)).collect::<Vec<_>>();
        let found = match args.world {
            World::Virtual => {
                let counts = PairCounts { done: done.len() as u64, total: mine.len() as u64 };
                runtime.block_on(on_virtual_time(args, pairs, counts, terminal))?
            }
            _ => runtime.block_on(async {
                let signals = signal::watch().map_err(Failure::unavailable)?;
                let asked = asked.of(pairs);
                let found = on_server(args, &args.server, &asked, signals, terminal).await;
                found.map(|(matrix, _)| matrix)
            })?,
        };
        interrupted = found.interrupted;
        file.keep_pairs(found, batch.iter().map(|(place, _)| *place))?;
        file.end_batch()?;
    }
    runtime.shutdown_background();
    file.save()?;
    print::results(&file.summary(&format!("{} of {} pairs", file.pairs()?.len(), mine.len())))?;
    Ok(Exit::of_shard(file.shard.complete, interrupted))
}

/// What the shards of a matrix have found together, printed as by one run of the whole.
pub(crate) fn merged(
    args: &MatrixArgs,
    asked: &Question,
    shards: impl Iterator<Item = Shard>,
    is_whole: bool,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let (mut server, mut pairs) = (None, BTreeMap::new());
    for shard in shards {
        let PartFound::Matrix { server: of, pairs: theirs } = shard.found else {
            return Err(Failure::internal("a matrix has a shard of a sweep"));
        };
        if server.is_some() && of.is_some() && server != of {
            return Err(Failure::usage_text(
                format!(
                    "these shards ran against different servers: {} and {}",
                    server.unwrap_or_default(),
                    of.unwrap_or_default()
                ),
                "what one server shows is never taken for what another does: merge those of one",
            ));
        }
        server = server.or(of);
        pairs.extend(theirs);
    }
    let own = Asked::read(args)?;
    refuse_changed(asked, &own.question(args)?)?;
    let missing = |pair: &Scenario| Pair::not_run(pair, Some("its shard is missing".to_owned()));
    let all = (0..).zip(&own.pairs);
    let found: Vec<Pair> =
        all.map(|(place, pair)| pairs.remove(&place).unwrap_or_else(|| missing(pair))).collect();
    let matrix = Matrix::new(args.world.name(), server, found, !is_whole);
    let exit = Exit::of_pairs(&matrix);
    let found = match args.world {
        World::Virtual => MatricesFound::of_virtual(args, &own, matrix)?,
        // Only the verdicts of runs on a server are kept.
        _ => MatricesFound { matrices: vec![matrix], failing: vec![BTreeMap::new()] },
    };
    write_report(args, &own, found, terminal)?;
    Ok(exit)
}
