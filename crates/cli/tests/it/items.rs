//! `sidereal item` against `sidereal emulator`, as processes.

use std::fs;

use serde_json::json;

use crate::account::Account;

const ORDER: &str = r#"{"id":"1","customer":"contoso","total":120}"#;

#[test]
fn an_item_is_written_read_changed_and_deleted() {
    let account = Account::with_orders();
    let of = |action: &'static str| ["item", action, "shop/orders"];
    let named = ["1", "--partition-key", "contoso"];
    assert!(account.says(&[&of("create")[..], &[ORDER]].concat()).contains("created"));
    let said = account.refuses(4, &[&of("create")[..], &[ORDER]].concat());
    assert!(said.contains("sidereal item put"), "{said}");
    assert!(account.says(&[&of("put")[..], &[ORDER]].concat()).contains("replaced"));
    let got = &account.tells(&[&of("get")[..], &named].concat())[0];
    assert!(got["_etag"].is_string() && got["total"] == 120, "{got}");
    let changes = [
        "--set",
        "/status=\"paid\"",
        "--add",
        "/tags=[1]",
        "--replace",
        "/total=7",
        "--increment",
        "/total=3",
        "--move",
        "/status=/state",
        "--condition",
        "FROM c WHERE c.total = 120",
    ];
    account.says(&[&of("patch")[..], &named, &changes].concat());
    let got = account.tells(&[&of("get")[..], &named, &["--no-system"]].concat());
    let expected =
        json!({"id": "1", "customer": "contoso", "total": 10, "tags": [1], "state": "paid"});
    assert_eq!(got, [expected]);
    let stale = [&of("delete")[..], &named, &["--if-match", "stale"]].concat();
    assert!(account.refuses(4, &stale).contains("read it again"));
    assert!(account.says(&[&of("delete")[..], &named].concat()).contains("deleted"));
    let said = account.refuses(3, &[&of("get")[..], &named].concat());
    assert!(said.contains("no item 1") && said.contains("[\"contoso\"]"), "{said}");
}

#[test]
fn an_item_comes_from_the_command_line_a_file_or_standard_input() {
    let account = Account::with_orders();
    let path = account.directory.path().join("order.json");
    fs::write(&path, ORDER).unwrap();
    let file = format!("@{}", path.display());
    assert!(account.says(&["item", "put", "shop/orders", &file]).contains("created"));
    let (status, said, _) = account.given(&["item", "upsert", "shop/orders", "-"], ORDER);
    assert!(status == Some(0) && said.contains("replaced"), "{said}");
    for (item, why) in
        [("{", "not JSON"), ("[]", "not an object"), ("{}", "no id"), ("@/nowhere", "/nowhere")]
    {
        let said = account.refuses(7, &["item", "put", "shop/orders", item]);
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn what_is_missing_or_makes_no_sense_is_told() {
    let account = Account::with_orders();
    let said = account.refuses(2, &["item", "get", "shop/orders", "1"]);
    assert!(said.contains("/customer") && said.contains("--partition-key"), "{said}");
    let said = account.refuses(2, &["item", "patch", "shop/orders", "1", "--partition-key", "a"]);
    assert!(said.contains("--set"), "{said}");
    assert!(
        account.refuses(3, &["item", "get", "shop/none", "1"]).contains("no container shop/none")
    );
    let said = account.refuses(2, &["item", "patch", "shop/orders", "1", "--increment", "/n=x"]);
    assert!(said.contains("/total=5"), "{said}");
    let two = ["--partition-key", "a", "--partition-key", "b"];
    let said = account.refuses(7, &[&["item", "get", "shop/orders", "1"][..], &two].concat());
    assert!(said.contains("2 components"), "{said}");
}

#[test]
fn an_export_is_imported_as_it_was() {
    let account = Account::with_orders();
    account.says(&["container", "create", "shop/copy", "--partition-key", "/customer"]);
    let item = |n: u32| {
        json!({"id": format!("ä{n}"), "customer": n % 7, "n": 0.1 + f64::from(n), "big": 9007199254740991u64,
               "null": null, "text": "a\nb\u{1F600}", "nested": {"_ts": n, "list": [1, "2", [true]]}})
    };
    let text: String = (0..400).map(|n| format!("{}\n", item(n))).collect();
    let (status, said, why) = account.given(&["item", "import", "shop/orders", "-"], &text);
    assert_eq!(status, Some(0), "{why}");
    assert!(said.contains("Imported 400 items into shop/orders"), "{said}");
    let file = account.directory.path().join("orders.jsonl");
    let path = file.to_str().unwrap();
    account.says(&["item", "export", "shop/orders", path]);
    assert!(!file.with_extension("jsonl.partial").exists());
    account.says(&["item", "import", "shop/copy", path]);
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let copy = account.says(&["item", "export", "shop/copy"]);
    assert_eq!(sorted(&copy), sorted(&fs::read_to_string(&file).unwrap()));
    assert_eq!(sorted(&copy), sorted(&text), "what was written comes back, to the byte");
    let with_system = account.tells(&["item", "export", "shop/copy", "--system"]);
    assert!(with_system[0]["_etag"].is_string());
    let part =
        ["item", "export", "shop/copy", "--query", "SELECT c.n FROM c", "--partition-key", "3"];
    assert_eq!(account.says(&part).lines().count(), 57);
}

#[test]
fn each_bad_line_is_named_and_the_others_are_imported() {
    let account = Account::with_orders();
    let text = "{\"id\":\"1\",\"customer\":\"a\"}\nnonsense\n\n{\"id\":4}\n{\"id\":\"a/b\",\"customer\":\"a\"}\n\
                {\"id\":\"6\",\"customer\":{\"no\":\"key\"}}\n{\"id\":\"7\"}\n";
    let (status, said, why) = account.given(&["item", "import", "shop/orders", "-"], text);
    assert_eq!(status, Some(8), "{why}");
    for bad in [
        "line 2: it is not JSON",
        "line 4: its id is not text",
        "line 5: the id \"a/b\"",
        "3 of 6 lines failed",
    ] {
        assert!(why.contains(bad), "{bad}: {why}");
    }
    assert!(said.contains("Imported 3 items"), "{said}");
    let (status, _, why) =
        account.given(&["item", "import", "shop/orders", "-", "--max-failures", "1"], "a\nb\nc\n");
    assert_eq!(status, Some(8), "{why}");
    assert!(why.contains("given up") && why.contains("--max-failures"), "{why}");
    let said = account.refuses(7, &["item", "import", "shop/orders", "/nowhere.jsonl"]);
    assert!(said.contains("/nowhere.jsonl"), "{said}");
    account.refuses(3, &["item", "import", "shop/none", "-"]);
}

#[test]
fn an_export_that_fails_leaves_no_file() {
    let account = Account::with_orders();
    let file = account.directory.path().join("none.jsonl");
    account.refuses(3, &["item", "export", "shop/none", file.to_str().unwrap()]);
    assert!(!file.exists() && !file.with_extension("jsonl.partial").exists());
    account.refuses(7, &["item", "export", "shop/orders", "/nowhere/at/all.jsonl"]);
}

#[test]
fn what_an_operation_went_through_is_told_apart_from_its_result() {
    let account = Account::with_orders();
    let put = ["item", "put", "shop/orders", r#"{"id":"1","customer":"a"}"#, "--diagnostics"];
    let (status, said, noted) = account.given(&put, "");
    assert_eq!(status, Some(0), "{noted}");
    assert!(said.contains("created") && !said.contains("attempts"), "{said}");
    let told: serde_json::Value = serde_json::from_str(noted.trim()).unwrap();
    assert_eq!(told["attempts"].as_array().unwrap().len(), 1, "{told}");
    let get = ["item", "get", "shop/orders", "2", "--partition-key", "a", "--diagnostics"];
    let (status, _, noted) = account.given(&get, "");
    assert_eq!(status, Some(3), "{noted}");
    assert!(noted.contains("\"attempts\"") && noted.contains("there is no item"), "{noted}");
    for line in [&["db", "show", "shop"][..], &["container", "show", "shop/orders"]] {
        let (_, _, noted) = account.given(&[line, &["--diagnostics"]].concat(), "");
        assert!(noted.contains("\"attempts\""), "{noted}");
    }
}
