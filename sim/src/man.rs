//! `picklock man`: the man page of picklock, or of a command.
//!
//! Invariant: a page shows no value of a variable, which may be a password. Every command that a page names has a page.

use clap::CommandFactory;
use clap_mangen::Man;
use history::nearest::nearest;

use super::args::Cli;
use super::failure::{Failure, did_you_mean};

/// The page as roff, for `man -l`.
pub(super) fn page(of: Option<&str>) -> Result<String, Failure> {
    let mut picklock = Cli::command().disable_help_subcommand(true);
    // Commands learn their full names and the options that all have.
    picklock.build();
    let page = match of {
        None => Man::new(picklock),
        Some(name) => {
            let Some(command) = picklock.find_subcommand(name) else {
                let names = picklock.get_subcommands().map(clap::Command::get_name);
                let help =
                    did_you_mean(nearest(name, names), "`picklock --help` lists the commands");
                return Err(Failure::usage_text(format!("no command is called {name:?}"), help));
            };
            // A command has no version of its own.
            Man::new(command.clone()).source(concat!("picklock ", env!("CARGO_PKG_VERSION")))
        }
    };
    let mut roff = Vec::new();
    page.render(&mut roff).map_err(Failure::internal)?;
    String::from_utf8(roff).map_err(Failure::internal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_that_the_page_names_has_a_page() {
        let whole = page(None).unwrap();
        let named =
            || whole.lines().filter_map(|it| it.strip_prefix("picklock\\-")?.strip_suffix("(1)"));
        assert_eq!(named().count(), Cli::command().get_subcommands().count());
        for command in named() {
            let page = page(Some(command)).unwrap();
            assert!(page.contains(&format!("picklock\\-{command}")), "{page}");
            assert!(page.contains("PICKLOCK_COLOR"), "{command}: {page}");
            assert!(page.contains(concat!("picklock ", env!("CARGO_PKG_VERSION"))), "{page}");
        }
    }
}
