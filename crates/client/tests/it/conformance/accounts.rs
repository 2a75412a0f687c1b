//! The account itself.

use sidereal::ErrorKind;

use super::{Feature, with_store};

#[tokio::test]
async fn an_account_says_its_regions_and_its_consistency() {
    with_store(&[], async |store| {
        let account = store.client.read_account().await.unwrap().into_properties().unwrap();
        assert!(!account.readable_locations.is_empty());
        assert!(account.write_region().is_some());
    })
    .await;
}

#[tokio::test]
async fn a_response_says_what_it_cost_and_where_it_was_served() {
    with_store(&[], async |store| {
        let item = super::order("contoso", "1", 10);
        let response = store.orders.create_item("contoso", &item, None).await.unwrap();
        assert_eq!(response.status().code(), 201);
        assert!(response.request_charge() > 0.0);
        assert!(response.etag().is_some());
        assert!(!response.activity_id().unwrap().is_empty());
        let account = store.client.read_account().await.unwrap().into_properties().unwrap();
        assert_eq!(response.region(), account.write_region());
        assert!(!response.diagnostics().attempts().is_empty());
        assert!(format!("{response:?}").contains("201"), "{response:?}");
    })
    .await;
}

#[tokio::test]
async fn an_error_says_what_the_service_said() {
    with_store(&[Feature::MissingItem], async |store| {
        let error = store.orders.read_item("contoso", "none", None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(error.status().unwrap().code(), 404);
        assert!(!error.may_have_been_applied());
        assert!(error.service_message().is_some_and(|it| !it.is_empty()), "{error:?}");
        assert!(!error.diagnostics().unwrap().attempts().is_empty());
        assert!(format!("{error:?}").contains("404"), "{error:?}");
    })
    .await;
}
