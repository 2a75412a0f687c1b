//! An instance with the sub-orchestrations below it.

use std::collections::BTreeMap;

use duroxide::providers::InstanceInfo;
use serde_json::{Value, json};

use super::open::Opened;
use crate::command::FormatArguments;
use crate::failure::Failure;
use crate::output;
use crate::table;

/// Instances of a tree that are shown: each is read.
const SHOWN_INSTANCES: usize = 1_000;

pub(super) async fn show(
    opened: &Opened,
    instance: &str,
    format: &FormatArguments,
) -> Result<(), Failure> {
    opened.instance(instance).await?;
    let tree = opened.client.get_instance_tree(instance).await;
    let tree = tree.map_err(|error| opened.explain(error, instance))?;
    let mut infos = Vec::new();
    for id in tree.all_ids.iter().take(SHOWN_INSTANCES) {
        infos.push(opened.instance(id).await?);
    }
    if tree.size() > SHOWN_INSTANCES {
        output::note(&format!("{SHOWN_INSTANCES} of {} instances are shown", tree.size()));
    }
    let rows: Vec<_> = lines(instance, &infos).into_iter().map(row).collect();
    format.print(["INSTANCE", "ORCHESTRATION", "STATUS"], &rows)
}

/// The instances of a tree from its root down, each with how deep it is.
fn lines<'a>(root: &str, infos: &'a [InstanceInfo]) -> Vec<(usize, &'a InstanceInfo)> {
    let mut children: BTreeMap<&str, Vec<&InstanceInfo>> = BTreeMap::new();
    for info in infos {
        let parent = info.parent_instance_id.as_deref().unwrap_or_default();
        children.entry(parent).or_default().push(info);
    }
    let mut lines = Vec::new();
    let mut next: Vec<(usize, &InstanceInfo)> =
        infos.iter().filter(|info| info.instance_id == root).map(|info| (0, info)).collect();
    while let Some((depth, info)) = next.pop() {
        lines.push((depth, info));
        let below = children.remove(info.instance_id.as_str()).unwrap_or_default();
        // The last one first: the next one that is taken is the first.
        next.extend(below.into_iter().rev().map(|child| (depth + 1, child)));
    }
    lines
}

fn row((depth, info): (usize, &InstanceInfo)) -> (Value, [String; 3]) {
    let value = json!({
        "instance": info.instance_id,
        "depth": depth,
        "parent": info.parent_instance_id,
        "orchestration": info.orchestration_name,
        "status": info.status,
    });
    let indent = match depth {
        0 => String::new(),
        depth => format!("{}└ ", "  ".repeat(depth - 1)),
    };
    let cells = [
        format!("{indent}{}", table::printable(&info.instance_id)),
        table::printable(&info.orchestration_name),
        info.status.clone(),
    ];
    (value, cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(id: &str, parent: Option<&str>) -> InstanceInfo {
        InstanceInfo {
            instance_id: id.to_owned(),
            orchestration_name: "Test".to_owned(),
            orchestration_version: "1.0.0".to_owned(),
            current_execution_id: 1,
            status: "Running".to_owned(),
            output: None,
            created_at: 0,
            updated_at: 0,
            parent_instance_id: parent.map(str::to_owned),
        }
    }

    #[test]
    fn children_stand_below_their_parents_in_order() {
        let infos = [
            info("r", Some("elsewhere")),
            info("b", Some("r")),
            info("a", Some("r")),
            info("b1", Some("b")),
        ];
        let drawn: Vec<String> =
            lines("r", &infos).into_iter().map(|it| row(it).1[0].clone()).collect();
        assert_eq!(drawn, ["r", "└ b", "  └ b1", "└ a"]);
    }
}
