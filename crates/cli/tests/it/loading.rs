//! `sidereal emulator --load` as a process.

use std::fs;

use serde_json::json;

use crate::account::{Account, command, refuses};
use crate::emulator::Directory;

#[test]
fn an_account_begins_with_what_a_file_describes() {
    let directory = Directory::new();
    fs::create_dir_all(directory.path()).unwrap();
    let file = directory.path().join("shop.json");
    let shop = json!({ "databases": [{ "id": "shop", "throughput": 500, "containers": [{
        "id": "orders", "partitionKey": ["/tenant", "/user"], "throughput": { "autoscale": 4000 },
        "defaultTtl": 3600, "uniqueKeys": [["/number"]],
        "items": [{ "id": "1", "tenant": "a", "user": "b", "number": 7 }, { "id": "2", "number": 7 }],
    }] }, { "id": "empty" }] });
    fs::write(&file, shop.to_string()).unwrap();
    let data = directory.path().join("data");
    // Twice, with a directory: the second start finds all of it and changes nothing.
    for _ in 0..2 {
        let load = ["--load", file.to_str().unwrap(), "--data-dir", data.to_str().unwrap()];
        let account = Account::start(&load);
        let shown = &account.tells(&["container", "show", "shop/orders"])[0];
        assert_eq!(shown["partitionKey"]["paths"], json!(["/tenant", "/user"]));
        assert_eq!(
            (&shown["throughput"], &shown["defaultTtl"]),
            (&json!({ "autoscale": 4000 }), &json!(3600))
        );
        assert_eq!(shown["uniqueKeyPolicy"]["uniqueKeys"][0]["paths"], json!(["/number"]));
        assert_eq!(
            account.tells(&["db", "show", "shop"])[0]["throughput"],
            json!({ "manual": 500 })
        );
        let ids = account.tells(&["sql", "shop/orders", "SELECT VALUE c.id FROM c ORDER BY c.id"]);
        assert_eq!(ids, [json!("1"), json!("2")]);
        #[cfg(unix)]
        assert_eq!(account.emulator.end_with("-TERM"), Some(0));
    }
}

#[test]
fn a_file_that_cannot_be_loaded_is_told_with_its_place() {
    let directory = Directory::new();
    fs::create_dir_all(directory.path()).unwrap();
    let file = directory.path().join("wrong.json");
    let refused = |text: &str| {
        fs::write(&file, text).unwrap();
        let load = ["emulator", "--port", "0", "--json", "--load", file.to_str().unwrap()];
        refuses(7, command(&load).env("XDG_STATE_HOME", directory.path()))
    };
    let container = |fields: &str| {
        format!(r#"{{"databases":[{{"id":"shop","containers":[{{"id":"orders",{fields}}}]}}]}}"#)
    };
    for (text, expected) in [
        ("{\n oops".to_owned(), "line 2 column 2"),
        ("[]".to_owned(), "expected an object"),
        (container(r#""partitionKey":"customer""#), "databases[0].containers[0].partitionKey: "),
        (container(r#""partitionkey":"/customer""#), "partitionkey is not known here"),
        (
            container(r#""partitionKey":"/a","items":[{"no":"id"}]"#),
            "containers[0].items[0]: it has no id",
        ),
        // What only the account itself can find.
        (
            container(r#""partitionKey":"/a","items":[{"id":"1"},{"id":"a/b"}]"#),
            "containers[0].items[1]: the id",
        ),
        (container(r#""partitionKey":"/a","throughput":10"#), "databases[0].containers[0]: "),
    ] {
        let said = refused(&text);
        assert!(
            said.contains(expected) && said.contains("wrong.json") && said.contains("hint: "),
            "{said}"
        );
    }
    let missing = command(&["emulator", "--load", "/nowhere.json"]).output().unwrap();
    assert!(String::from_utf8(missing.stderr).unwrap().contains("/nowhere.json"));
}
