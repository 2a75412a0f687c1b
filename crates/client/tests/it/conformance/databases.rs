//! Databases.

use sidereal::options::{CreateDatabaseOptions, ThroughputOptions};
use sidereal::prelude::*;

use super::{Feature, with_store};

#[tokio::test]
async fn a_database_is_created_once_read_and_deleted() {
    with_store(&[], async |store| {
        let id = format!("{}-second", store.database.id());
        let created = store.client.create_database(&id, None).await.unwrap();
        assert_eq!(created.status().code(), 201);
        assert_eq!(created.into_properties().unwrap().id, id);
        let twice = store.client.create_database(&id, None).await.unwrap_err();
        assert_eq!(twice.kind(), ErrorKind::Conflict);
        let there = store.client.create_database_if_not_exists(&id, None).await.unwrap();
        assert_eq!(there.status().code(), 200);

        let database = store.client.database(&id);
        assert_eq!(database.read(None).await.unwrap().into_properties().unwrap().id, id);
        database.delete(None).await.unwrap();
        assert_eq!(database.read(None).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(database.delete(None).await.unwrap_err().kind(), ErrorKind::NotFound);
    })
    .await;
}

#[tokio::test]
async fn a_database_may_have_throughput_that_its_containers_share() {
    with_store(&[Feature::Throughput], async |store| {
        let id = format!("{}-shared", store.database.id());
        let options = CreateDatabaseOptions {
            throughput: Some(ThroughputProperties::manual(500)),
            ..CreateDatabaseOptions::default()
        };
        store.client.create_database(&id, Some(options)).await.unwrap();
        let database = store.client.database(&id);
        let read = database.read_throughput(None).await.unwrap();
        assert_eq!(read, Some(ThroughputProperties::manual(500)));
        let wanted = ThroughputProperties::manual(700);
        let options = Some(ThroughputOptions::default());
        assert_eq!(database.replace_throughput(wanted, options).await.unwrap(), wanted);
        assert_eq!(database.read_throughput(None).await.unwrap(), Some(wanted));
        database.delete(None).await.unwrap();
        assert_eq!(store.database.read_throughput(None).await.unwrap(), None);
        let refused = store.database.replace_throughput(wanted, None).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotFound);
        assert!(refused.to_string().contains("no throughput to replace"), "{refused}");
    })
    .await;
}

#[tokio::test]
async fn an_id_that_no_database_can_have_is_refused_before_it_is_sent() {
    with_store(&[], async |store| {
        for id in ["", "a/b", "a#b"] {
            let error = store.client.create_database(id, None).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{id}");
            assert!(error.diagnostics().is_none(), "it was sent: {id}");
            let error = store.client.database(id).read(None).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{id}");
        }
    })
    .await;
}
