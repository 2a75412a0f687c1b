//! Examples in every help: a command that has none of its own shows those of the command above that are about it.

use clap::Command;

/// The first line of a help's examples.
const HEADING: &str = "Examples:";

/// The command and all below it, each with examples in its help.
pub(crate) fn with_examples(command: Command) -> Command {
    let name = command.get_name().to_owned();
    filled(command, &name, &[])
}

fn filled(mut command: Command, path: &str, inherited: &[String]) -> Command {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let own = examples_of(&help);
    let examples = if own.is_empty() { about(path, inherited) } else { own };
    if help.is_empty() && !examples.is_empty() {
        command = command.after_help(format!("{HEADING}\n{}", examples.join("\n")));
    }
    command.mut_subcommands(|below| {
        let path = format!("{path} {}", below.get_name());
        filled(below, &path, &examples)
    })
}

/// The lines below the heading, to the first that is blank.
fn examples_of(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != HEADING).skip(1);
    lines.take_while(|line| !line.trim().is_empty()).map(str::to_owned).collect()
}

/// The examples that run this command.
fn about(path: &str, examples: &[String]) -> Vec<String> {
    let is_about = |line: &&String| {
        let rest = line.trim_start().strip_prefix(path);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    examples.iter().filter(is_about).cloned().collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::arguments::Arguments;

    #[test]
    fn a_command_shows_the_examples_above_that_are_about_it() {
        let above = "Examples:\n  a b one\n  a bc\n  a b\n\nNothing else.";
        let command = Command::new("a")
            .after_help(above)
            .subcommand(Command::new("b"))
            .subcommand(Command::new("c").after_help("Examples:\n  a c"));
        let command = with_examples(command);
        let help =
            |name| command.find_subcommand(name).unwrap().get_after_help().unwrap().to_string();
        assert_eq!(help("b"), "Examples:\n  a b one\n  a b");
        assert_eq!(help("c"), "Examples:\n  a c");
    }

    /// Every command can be tried from its help.
    #[test]
    fn every_help_has_examples() {
        fn check(command: &Command, path: &str, without: &mut Vec<String>) {
            for below in command.get_subcommands() {
                let path = format!("{path} {}", below.get_name());
                let help = below.get_after_help().map(ToString::to_string).unwrap_or_default();
                if !help.contains(HEADING) {
                    without.push(path.clone());
                }
                check(below, &path, without);
            }
        }
        let mut without = Vec::new();
        check(&with_examples(Arguments::command()), "sidereal", &mut without);
        assert_eq!(without, Vec::<String>::new());
    }
}
