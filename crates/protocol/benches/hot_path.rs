//! What every request pays for: hashing its key, finding its range, signing it.

#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]

use std::hint::black_box;
use std::time::{Duration, UNIX_EPOCH};

use criterion::{Criterion, criterion_group, criterion_main};
use http::Method;
use sidereal_protocol::{
    AccountKey, HttpDate, PartitionKey, PartitionKeyDefinition, PartitionKeyKind,
    PartitionKeyRange, PartitionKeyVersion, RequestPath, ResourceLink, RoutingMap, SessionToken,
    SignedRequest,
};

const GUID: &str = "6f9619ff-8b86-d011-b42d-00cf4fc964ff";

fn hashing(c: &mut Criterion) {
    let flat = PartitionKeyDefinition::new(["/pk"]).expect("a path");
    let deep = PartitionKeyDefinition::new(["/a", "/b", "/c"]).expect("three paths");
    let paths = vec!["/pk".parse().expect("a path")];
    let old =
        PartitionKeyDefinition::with_kind(paths, PartitionKeyKind::Hash, PartitionKeyVersion::V1)
            .expect("a kind");
    let key = PartitionKey::from(GUID);
    let deep_key = PartitionKey::from((GUID, "user", 7));
    c.bench_function("hash a 36-byte key, version 2", |b| {
        b.iter(|| flat.effective_key(black_box(&key)));
    });
    c.bench_function("hash a 36-byte key, version 1", |b| {
        b.iter(|| old.effective_key(black_box(&key)));
    });
    c.bench_function("hash a key of three levels", |b| {
        b.iter(|| deep.effective_key(black_box(&deep_key)));
    });
    c.bench_function("write the header of a 36-byte key", |b| {
        b.iter(|| black_box(&key).to_header());
    });
}

fn routing(c: &mut Criterion) {
    let definition = PartitionKeyDefinition::new(["/pk"]).expect("a path");
    let ranges = definition.even_ranges(1000).into_iter().zip(0u32..);
    let entries = ranges.map(|(range, id)| {
        PartitionKeyRange::new(id.into(), range.min().clone(), range.max().clone())
    });
    let map = RoutingMap::build(entries).expect("even ranges tile the key space");
    let effective = definition.effective_key(&GUID.into()).expect("a full key");
    c.bench_function("find a effective among 1000 ranges", |b| {
        b.iter(|| map.at(black_box(&effective)));
    });
}

fn signing(c: &mut Criterion) {
    let key = AccountKey::from_base64(
        "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==",
    )
    .expect("the published key");
    let item = ResourceLink::container("database", "container")
        .and_then(|link| link.item(GUID))
        .expect("valid names");
    let path = RequestPath::of(item);
    let date =
        HttpDate::new(UNIX_EPOCH + Duration::from_secs(1_700_000_000)).expect("a date of this era");
    c.bench_function("sign a request", |b| {
        b.iter(|| {
            let link = path.signed_link();
            let request = SignedRequest::new(&Method::GET, path.kind(), &link, date.as_str());
            key.authorize(black_box(&request))
        });
    });
    c.bench_function("write the path of an item", |b| b.iter(|| black_box(&path).encode()));
    let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    c.bench_function("lay out a date", |b| b.iter(|| HttpDate::new(black_box(now))));
}

fn sessions(c: &mut Criterion) {
    let text = "0:1#4283#1=4280#2=4282#3=4279";
    let (ours, theirs): (SessionToken, SessionToken) =
        (text.parse().expect("a token"), "0:1#4290#1=4281#2=4282#3=4290".parse().expect("a token"));
    c.bench_function("read a session token", |b| {
        b.iter(|| black_box(text).parse::<SessionToken>());
    });
    c.bench_function("merge session tokens", |b| {
        b.iter(|| {
            let mut merged = ours.clone();
            merged.merge(black_box(&theirs));
            merged
        });
    });
}

criterion_group!(benches, hashing, routing, signing, sessions);
criterion_main!(benches);
