//! `sidereal db` and `sidereal container` against `sidereal emulator`, as processes.

use serde_json::json;

use crate::account::Account;

#[test]
fn a_database_is_created_listed_shown_and_deleted() {
    let account = Account::start(&[]);
    assert!(account.says(&["db", "create", "shop", "--throughput", "500"]).contains("created"));
    let said = account.refuses(4, &["db", "create", "shop"]);
    assert!(said.contains("--if-not-exists"), "{said}");
    assert!(account.says(&["db", "create", "shop", "--if-not-exists"]).contains("already"));
    assert_eq!(account.tells(&["db", "list"])[0]["id"], "shop");
    let table = account.says(&["db", "list", "--output", "table"]);
    assert!(table.starts_with("DATABASE") && table.contains("shop"), "{table}");
    let shown = &account.tells(&["db", "show", "shop"])[0];
    assert_eq!((&shown["throughput"], &shown["containers"]), (&json!({"manual": 500}), &json!([])));
    assert!(account.refuses(2, &["db", "delete", "shop"]).contains("--yes"));
    account.says(&["db", "delete", "shop", "--yes"]);
    let said = account.refuses(3, &["db", "show", "shop"]);
    assert!(said.contains("no database shop") && said.contains("sidereal db list"), "{said}");
    assert!(account.refuses(7, &["db", "create", "a/b"]).contains('/'));
}

#[test]
fn a_container_is_created_with_every_setting_and_shown() {
    let account = Account::start(&["--partitions", "3"]);
    account.says(&["db", "create", "shop"]);
    let create = ["container", "create", "shop/orders", "--partition-key"];
    let rest = [
        "/tenant,/user",
        "--autoscale",
        "4000",
        "--ttl",
        "-1",
        "--unique-key",
        "/email",
        "--unique-key",
        "/first,/last",
        "--indexing-policy",
        r#"{"indexingMode":"none","automatic":false}"#,
    ];
    assert!(account.says(&[&create[..], &rest].concat()).contains("created"));
    let shown = &account.tells(&["container", "show", "shop/orders"])[0];
    assert_eq!(shown["partitionKey"]["paths"], json!(["/tenant", "/user"]));
    assert_eq!(shown["throughput"], json!({"autoscale": 4000}));
    assert_eq!(shown["defaultTtl"], -1);
    assert_eq!(shown["uniqueKeyPolicy"]["uniqueKeys"][1]["paths"], json!(["/first", "/last"]));
    assert_eq!(shown["indexingPolicy"]["indexingMode"], "none");
    assert_eq!(shown["partitions"], 3);
    assert_eq!(shown["feedRanges"].as_array().unwrap().len(), 3);
    let table = account.says(&["container", "list", "shop", "-o", "table"]);
    assert!(table.contains("/tenant,/user") && table.contains("by item"), "{table}");
    let exists = [&create[..], &["/other", "--if-not-exists"]].concat();
    assert!(account.refuses(4, &exists).contains("/tenant,/user"));
}

#[test]
fn containers_that_are_not_there_and_arguments_that_are_none_are_refused() {
    let account = Account::start(&[]);
    let said = account.refuses(3, &["container", "list", "nowhere"]);
    assert!(said.contains("sidereal db list"), "{said}");
    account.says(&["db", "create", "shop"]);
    for action in [&["show"][..], &["delete", "--yes"]] {
        let said = account.refuses(3, &[&["container"], action, &["shop/none"]].concat());
        assert!(said.contains("sidereal container list shop"), "{said}");
    }
    let create = ["container", "create", "shop/orders", "--partition-key"];
    for (wrong, expected) in [
        (&["customer"][..], "/"),
        (&["/a", "--ttl", "0"], "greater than 0"),
        (&["/a", "--unique-key", "email"], "/email"),
        (&["/a", "--indexing-policy", "{"], "indexing policy"),
        (&["/a", "--throughput", "400", "--autoscale", "4000"], "--autoscale"),
    ] {
        let said = account.refuses(2, &[&create[..], wrong].concat());
        assert!(said.contains(expected), "{said}");
    }
    assert!(account.refuses(2, &["container", "show", "shop"]).contains("shop/orders"));
}
