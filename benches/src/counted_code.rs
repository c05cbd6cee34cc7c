//! Instructions that a program carries out, as callgrind counts them, those among them that are atomic, and allocations.
//!
//! Invariant: what is atomic is told by the program's own code, disassembled: it has the prefix `lock`, or exchanges with
//! memory. What the system's libraries do is counted and never taken for atomic.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;
use std::process::Command;

/// How many instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountedCode {
    /// All of them.
    pub instructions: u64,
    /// The atomic ones among them.
    pub atomic: u64,
    /// Calls of the allocator for memory.
    pub allocations: u64,
}

/// How names of functions begin that give memory, in mimalloc and in the system's library.
const ALLOCATES: [&str; 7] =
    ["mi_malloc", "mi_zalloc", "mi_calloc", "mi_realloc", "malloc", "calloc", "realloc"];

impl CountedCode {
    /// What is more than in the other.
    #[must_use]
    pub fn without(self, less: &Self) -> Self {
        Self {
            instructions: self.instructions.saturating_sub(less.instructions),
            atomic: self.atomic.saturating_sub(less.atomic),
            allocations: self.allocations.saturating_sub(less.allocations),
        }
    }
}

/// Runs a program with these words.
///
/// # Errors
/// Where `valgrind` or `objdump` is missing or fails.
pub fn of(program: &Path, words: &[String]) -> Result<CountedCode, Box<dyn Error>> {
    let room = tempfile::tempdir()?;
    let profile = room.path().join("profile");
    let mut counted = Command::new("valgrind");
    counted.args(["--tool=callgrind", "--dump-instr=yes", "--compress-pos=no"]);
    counted.arg(format!("--callgrind-out-file={}", profile.display()));
    output(counted.arg(program).args(words))?;
    let mut disassembled = Command::new("objdump");
    let code = output(disassembled.args(["-d", "--no-show-raw-insn"]).arg(program))?;
    let name = program.to_string_lossy();
    Ok(summed(&std::fs::read_to_string(&profile)?, &name, &atomic_places(&code)))
}

fn output(command: &mut Command) -> Result<String, Box<dyn Error>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let ended = command.output().map_err(|error| format!("{name}: {error}: install it"))?;
    if !ended.status.success() {
        return Err(format!("{name}: {}", String::from_utf8_lossy(&ended.stderr)).into());
    }
    Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
}

/// Where a disassembled program has atomic instructions.
fn atomic_places(code: &str) -> BTreeSet<u64> {
    let of_line = |line: &str| {
        let (place, instruction) = line.split_once(':')?;
        let instruction = instruction.trim_start();
        let exchanges = instruction.starts_with("xchg") && instruction.contains('(');
        let is_atomic = instruction.starts_with("lock ") || exchanges;
        is_atomic.then(|| u64::from_str_radix(place.trim(), 16).ok())?
    };
    code.lines().filter_map(of_line).collect()
}

/// Adds up a profile of callgrind with uncompressed positions. A line behind `calls=` is what was called, which is
/// counted where it is carried out.
fn summed(profile: &str, program: &str, atomic: &BTreeSet<u64>) -> CountedCode {
    let mut sum = CountedCode::default();
    let (mut names, mut allocate) = (BTreeMap::new(), BTreeMap::new());
    let (mut of_program, mut is_call, mut inside, mut allocates) = (false, false, false, false);
    for line in profile.lines() {
        if let Some(calls) = line.strip_prefix("calls=") {
            is_call = true;
            // What an allocator calls of its own is no further allocation.
            if allocates && !inside {
                sum.allocations +=
                    calls.split(' ').next().and_then(|it| it.parse().ok()).unwrap_or(0);
            }
        } else if let Some(name) = line.strip_prefix("fn=").or_else(|| line.strip_prefix("cfn=")) {
            let (number, name) = name.split_once(' ').unwrap_or((name, ""));
            if !name.is_empty() {
                allocate.insert(number, ALLOCATES.iter().any(|it| name.starts_with(it)));
            }
            let known = allocate.get(number).copied().unwrap_or(false);
            if line.starts_with("fn=") { inside = known } else { allocates = known }
        } else if let Some(object) = line.strip_prefix("ob=").or_else(|| line.strip_prefix("cob="))
        {
            // The first time with its name, then by number alone.
            let (number, name) = object.split_once(' ').unwrap_or((object, ""));
            if !name.is_empty() {
                names.insert(number, name == program);
            }
            if line.starts_with("ob=") {
                of_program = names.get(number).copied().unwrap_or(false);
            }
        } else if let Some((place, rest)) =
            line.strip_prefix("0x").and_then(|it| it.split_once(' '))
        {
            if std::mem::take(&mut is_call) {
                continue;
            }
            let place = u64::from_str_radix(place, 16);
            let count = rest.rsplit(' ').next().and_then(|it| it.parse::<u64>().ok());
            let (Ok(place), Some(count)) = (place, count) else { continue };
            sum.instructions += count;
            if of_program && atomic.contains(&place) {
                sum.atomic += count;
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomic_instructions_of_the_program_are_told_from_others() {
        let code = "\n  1000:\tlock xadd %rax,(%rdi)\n  1004:\txchg %rax,(%rdi)\n  1008:\txchg %ax,%ax\n  100c:\tmov %rax,(%rdi)\n";
        let places = atomic_places(code);
        assert_eq!(places, BTreeSet::from([0x1000, 0x1004]));
        let profile = "ob=(1) /bin/program\nfn=(1) run\n0x1000 7 5\n0x100c 7 20\ncob=(2) /lib/other\ncfn=(2) malloc\n\
                       calls=3 0x1004 9\n0x1004 7 100\n0x1004 8 1\nob=(2)\nfn=(2)\n0x1000 9 1000\nob=(1)\n0x1004 7 2\n\
                       totals: 1028\n";
        let sum = summed(profile, "/bin/program", &places);
        assert_eq!(sum, CountedCode { instructions: 1028, atomic: 8, allocations: 3 });
        let less = CountedCode { instructions: 28, atomic: 8, allocations: 1 };
        assert_eq!(
            sum.without(&less),
            CountedCode { instructions: 1000, atomic: 0, allocations: 2 }
        );
    }
}
