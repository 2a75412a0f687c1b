//! `sidereal completions` and `sidereal man`: shell completions and man pages, generated from the declaration of
//! the arguments, which the caller passes.

use std::io;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::failure::{ExitStatus, Failure};
use crate::output::{self, OutputError};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  source <(sidereal completions bash)
  sidereal completions zsh > ~/.zfunc/_sidereal
  sidereal completions fish > ~/.config/fish/completions/sidereal.fish
  sidereal completions powershell >> $PROFILE")]
pub(crate) struct CompletionArguments {
    /// The shell.
    shell: Shell,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sidereal man | man -l -
  sidereal man sql | man -l -
  sidereal man --directory ~/.local/share/man/man1")]
pub(crate) struct ManualArguments {
    /// The command whose page to print, such as sql or item import [default: sidereal itself].
    command: Vec<String>,
    /// Write the pages of all commands to files in this directory instead.
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "command")]
    directory: Option<PathBuf>,
}

/// Prints the script that completes the commands and flags of `sidereal`.
pub(crate) fn completions(
    arguments: &CompletionArguments,
    mut sidereal: Command,
) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut sidereal, "sidereal", &mut script);
    print(&script)
}

/// Prints the man page of a command below `sidereal`, or writes all of them.
pub(crate) fn manual(arguments: &ManualArguments, sidereal: Command) -> Result<(), Failure> {
    if let Some(directory) = &arguments.directory {
        let unwritable = |error| Failure::file(directory, "written", error);
        std::fs::create_dir_all(directory).map_err(unwritable)?;
        clap_mangen::generate_to(sidereal, directory).map_err(unwritable)?;
        return Ok(());
    }
    let command = find(sidereal, &arguments.command)?;
    let mut page = Vec::new();
    let rendered = clap_mangen::Man::new(command).render(&mut page);
    rendered.map_err(OutputError::from)?;
    print(&page)
}

/// Finds the subcommand that a path of names leads to.
fn find(mut command: Command, path: &[String]) -> Result<Command, Failure> {
    // Fills in what subcommands have of their ancestors: names, versions, flags.
    command.build();
    for name in path {
        let found = command.find_subcommand(name).cloned();
        command = found.ok_or_else(|| {
            let known = command.get_subcommands().map(Command::get_name).collect::<Vec<_>>();
            let whole = command.get_bin_name().unwrap_or("sidereal");
            let sentence = format!("{whole} has no command {name}");
            let hint = match known.is_empty() {
                true => "it has none at all".to_owned(),
                false => format!("it has {}", known.join(", ")),
            };
            Failure::new(ExitStatus::NotFound, sentence).with_hint(hint)
        })?;
    }
    Ok(command)
}

fn print(text: &[u8]) -> Result<(), Failure> {
    let text = std::str::from_utf8(text).map_err(io::Error::other).map_err(OutputError::from)?;
    Ok(output::print(text)?)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::arguments::Arguments;

    #[test]
    fn a_command_is_found_by_its_path() {
        let of = |path: &[&str]| {
            find(Arguments::command(), &path.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(of(&[]).unwrap().get_name(), "sidereal");
        assert_eq!(of(&["item", "import"]).unwrap().get_bin_name(), Some("sidereal item import"));
        let failure = of(&["item", "nonsense"]).unwrap_err();
        assert!(failure.to_string().contains("sidereal item has no command nonsense"), "{failure}");
        assert!(failure.hint().unwrap().contains("import"), "{failure:?}");
    }
}
