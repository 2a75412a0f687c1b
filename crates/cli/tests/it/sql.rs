//! `sidereal sql` against `sidereal emulator`, as processes.

use serde_json::json;

use crate::account::Account;

/// Orders `0` to `24` of five customers, over two partitions.
fn with_items() -> Account {
    let account = Account::with_orders();
    let line = |n: u32| json!({"id": n.to_string(), "customer": format!("c{}", n % 5), "n": n});
    let text: String = (0..25).map(|n| format!("{}\n", line(n))).collect();
    let (status, _, said) = account.given(&["item", "import", "shop/orders", "-"], &text);
    assert_eq!(status, Some(0), "{said}");
    account
}

const ALL: &str = "SELECT VALUE c.n FROM c";

#[test]
fn rows_are_lines_of_json_or_a_table() {
    let account = with_items();
    let query = "SELECT c.id, c.customer, c.n FROM c WHERE c.n < @most ORDER BY c.n";
    let sql = ["sql", "shop/orders", query, "--param", "most=2"];
    let expected = [
        json!({"id": "0", "customer": "c0", "n": 0}),
        json!({"id": "1", "customer": "c1", "n": 1}),
    ];
    assert_eq!(account.tells(&sql), expected);
    let table = account.says(&[&sql[..], &["--output", "table"]].concat());
    assert_eq!(table, "id  customer  n\n 0  c0        0\n 1  c1        1\n");
    let star = ["sql", "shop/orders", "SELECT * FROM c WHERE c.n = 1", "-o", "table"];
    assert!(!account.says(&star).contains("_etag"));
    assert!(account.says(&[&star[..], &["--system"]].concat()).contains("_etag"));
    let by_key = ["sql", "shop/orders", "SELECT VALUE COUNT(1) FROM c", "--partition-key", "c1"];
    assert_eq!(account.tells(&by_key), [json!(5)]);
}

#[test]
fn a_query_stops_after_as_many_rows_as_asked_and_goes_on_from_its_token() {
    let account = with_items();
    let (mut seen, mut token) = (Vec::<u32>::new(), None::<String>);
    for _ in 0..10 {
        let mut sql = vec!["sql", "shop/orders", ALL, "-n", "7", "--page-size", "4"];
        sql.extend(token.iter().flat_map(|token| ["--continuation", token]));
        let (status, rows, said) = account.given(&sql, "");
        assert_eq!(status, Some(0), "{said}");
        let rows: Vec<u32> = rows.lines().map(|line| line.parse().unwrap()).collect();
        seen.extend(&rows);
        token = said.lines().find_map(|line| Some(line.strip_prefix("continuation: ")?.to_owned()));
        if token.is_none() {
            break;
        }
        assert_eq!(rows.len(), 7, "every part but the last is whole");
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..25).collect::<Vec<u32>>());
}

#[test]
fn the_cost_goes_to_standard_error_and_so_do_diagnostics() {
    let account = with_items();
    let (_, rows, said) = account.given(&["sql", "shop/orders", ALL, "--page-size", "10"], "");
    assert_eq!(rows.lines().count(), 25);
    assert!(said.starts_with("25 rows, ") && said.contains(" RU"), "{said}");
    let (_, _, said) = account.given(&["sql", "shop/orders", ALL, "--diagnostics", "--quiet"], "");
    let first: serde_json::Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    assert!(first["attempts"].is_array() && !said.contains("rows,"), "{said}");
}

#[test]
fn a_script_runs_statement_by_statement_until_the_first_failure() {
    let account = with_items();
    let script = "\\use shop/orders\n\\param k=3\nSELECT VALUE c.id\n  FROM c WHERE c.n = @k; SELECT 'a;b' AS s;\n\
                  \\list\n\\param\n\\format table\nSELECT 1 AS one";
    let (status, said, _) = account.given(&["sql", "-q"], script);
    let expected = "\"3\"\n{\"s\":\"a;b\"}\nshop/orders\n@k = 3\none\n  1\n";
    assert_eq!((status, said.as_str()), (Some(0), expected));
    let (status, said, why) =
        account.given(&["sql", "shop/orders"], "SELECT 1;\n\\nonsense\nSELECT 2;");
    assert_eq!((status, said.lines().count()), (Some(7), 1));
    assert!(why.contains("\\nonsense") && why.contains("\\help"), "{why}");
    let (status, said, _) = account.given(&["sql"], "\\help\n\\quit\nSELECT 1;");
    assert!(status == Some(0) && said.contains("\\use DATABASE/CONTAINER"), "{said}");
    let (status, _, why) = account.given(&["sql"], "SELECT 1;");
    assert!(status == Some(2) && why.contains("\\use"), "{why}");
}

#[test]
fn what_cannot_be_asked_is_told_in_a_sentence() {
    let account = Account::with_orders();
    let refuses = |status, rest: &[&str]| account.refuses(status, &[&["sql"], rest].concat());
    assert!(refuses(7, &["shop/orders", "SELECT * FROM"]).contains("line 1, column 14"));
    assert!(refuses(7, &["shop/orders", " "]).contains("SELECT * FROM c"));
    assert!(refuses(7, &["shop/orders", "SELECT @a"]).contains("--param"));
    let said = refuses(7, &["shop/orders", "SELECT FOO(1)"]);
    assert!(said.contains("'FOO' is not a recognized") && said.lines().count() == 1, "{said}");
    assert!(refuses(3, &["shop/none", "SELECT 1"]).contains("sidereal container list shop"));
    assert!(refuses(2, &["shop", "SELECT 1"]).contains("shop/orders"));
    assert!(refuses(2, &["shop/orders", "SELECT 1", "--param", "x"]).contains("least=100"));
    assert!(refuses(2, &["shop/orders", "SELECT 1", "--continuation", "x"]).contains("token"));
}

#[cfg(unix)]
#[test]
fn a_reader_that_has_seen_enough_ends_the_query_quietly() {
    use std::process::Stdio;
    let account = with_items();
    let mut command = account.command(&["sql", "shop/orders", ALL, "-q"]);
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Closed before anything is written, so that the first write fails whatever its size.
    drop(process.stdout.take());
    let ended = process.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), ended.stderr.len()), (Some(141), 0));
}
