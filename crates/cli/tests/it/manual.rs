//! `sidereal --help`, `sidereal completions` and `sidereal man` as processes.

use std::fs;

use crate::account::{command, refuses, says};
use crate::emulator::Directory;

#[test]
fn every_shell_gets_its_completions() {
    for (shell, expected) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef sidereal"),
        ("fish", "complete -c sidereal"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let script = says(&mut command(&["completions", shell]));
        assert!(script.contains(expected) && script.contains("partition-key"), "{shell}");
    }
    assert!(refuses(2, &mut command(&["completions", "csh"])).contains("bash"));
}

#[test]
fn every_command_has_a_man_page() {
    let page = says(&mut command(&["man"]));
    assert!(page.contains(".TH sidereal 1") && page.contains("Exit status"), "{page}");
    let page = says(&mut command(&["man", "item", "import"]));
    assert!(page.contains("sidereal\\-item\\-import") && page.contains("max\\-failures"), "{page}");
    assert!(refuses(3, &mut command(&["man", "nonsense"])).contains("sql"));
    let directory = Directory::new();
    says(command(&["man", "--directory"]).arg(directory.path()));
    for name in ["sidereal.1", "sidereal-sql.1", "sidereal-chaos-fault-add.1"] {
        assert!(fs::read_to_string(directory.path().join(name)).unwrap().contains(".TH"), "{name}");
    }
}

#[test]
fn the_help_of_the_command_lists_what_there_is() {
    let help = says(&mut command(&["--help"]));
    for word in
        ["emulator", "chaos", "sql", "item", "db", "container", "Exit status", "COSMOSDB_KEY"]
    {
        assert!(help.contains(word), "{word}");
    }
    let help = says(&mut command(&["item", "import", "--help"]));
    assert!(help.contains("--endpoint") && help.contains("--max-failures"), "{help}");
    assert!(refuses(2, &mut command(&["nonsense"])).contains("nonsense"));
}
