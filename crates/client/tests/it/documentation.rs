//! The documentation's code is code that compiles.

/// Without white space and commas, which formatting changes.
fn squeezed(text: &str) -> String {
    text.chars().filter(|character| !character.is_whitespace() && *character != ',').collect()
}

/// Each statement of ours in the comparison with the official SDK is in the example that runs.
#[test]
fn the_twenty_tasks_are_those_of_the_example() {
    let chapter = include_str!("../../../../docs/coming-from-azure_data_cosmos.md");
    let example = squeezed(include_str!("../../examples/twenty_tasks.rs"));
    let blocks = chapter.split("Sidereal:\n\n```rust,ignore\n").skip(1);
    let mut count = 0;
    for block in blocks {
        count += 1;
        let block = block.split("\n```").next().unwrap_or_default();
        for line in block.lines().filter(|line| line.trim().len() > 2) {
            assert!(example.contains(&squeezed(line)), "not in the example: {line}");
        }
    }
    assert_eq!(count, 20);
}
