//! What a point read costs without a network: allocations and CPU of everything above the HTTP client.
//!
//!     cargo bench -p sidereal-driver --bench pipeline
//!
//! The client answers at once with a kilobyte and no headers. Of the allocations one is the client's: the
//! future that the seam hands over is boxed.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the time that it measures")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use sidereal_driver::diagnostics::RequestDiagnostics;
use sidereal_driver::options::CosmosEnvironmentOptions;
use sidereal_driver::transport::{
    Credential, Endpoint, HttpClient, HttpClientConfig, HttpClientFactory, HttpFuture, HttpRequest,
    HttpResponse,
};
use sidereal_driver::{CosmosDriver, CosmosDriverRuntime, CosmosOperation, OperationOptions};
use sidereal_protocol::{AccountKey, OperationType, PartitionKey, RequestPath, ResourceLink};

/// Counts what it passes on to the system's allocator.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

#[allow(unsafe_code, reason = "an allocator is unsafe by its trait; this one only counts")]
// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Relaxed: a counter that is read by the thread that counts.
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the pointer came from the system's allocator.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static ITEM: [u8; 1024] = [b' '; 1024];

/// An account with three regions.
const ACCOUNT: &str = r#"{
    "writableLocations": [
        {"name": "West US", "databaseAccountEndpoint": "https://contoso-westus.documents.azure.com/"}
    ],
    "readableLocations": [
        {"name": "West US", "databaseAccountEndpoint": "https://contoso-westus.documents.azure.com/"},
        {"name": "East US", "databaseAccountEndpoint": "https://contoso-eastus.documents.azure.com/"},
        {"name": "UK South", "databaseAccountEndpoint": "https://contoso-uksouth.documents.azure.com/"}
    ]
}"#;

/// Answers at once.
#[derive(Debug)]
struct AtOnce;

impl HttpClientFactory for AtOnce {
    fn create(&self, _: &Endpoint, _: &HttpClientConfig) -> Arc<dyn HttpClient> {
        Arc::new(AtOnce)
    }
}

impl HttpClient for AtOnce {
    fn execute<'a>(
        &'a self,
        request: HttpRequest,
        _: &'a mut RequestDiagnostics,
    ) -> HttpFuture<'a, HttpResponse> {
        let body = match request.uri().path() {
            "/" => ACCOUNT.as_bytes(),
            _ => &ITEM,
        };
        Box::pin(async { Ok(HttpResponse::new(Bytes::from_static(body))) })
    }
}

/// Reads per round; the fastest of the rounds counts, for what disturbs one only adds to it.
const READS: u32 = 20_000;
const ROUNDS: u32 = 15;

fn main() {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio.block_on(async {
        let runtime = CosmosDriverRuntime::builder()
            .environment(CosmosEnvironmentOptions::default())
            .http_client_factory(Arc::new(AtOnce))
            .build()
            .unwrap();
        let key = AccountKey::from_base64("c2lkZXJlYWwtdGVzdC1hY2NvdW50LWtleS1zaWRlcmVhbA==");
        let endpoint = "https://contoso.documents.azure.com/".parse().unwrap();
        let credential = Credential::Key(key.unwrap());
        let driver = CosmosDriver::new(runtime, endpoint, credential, Default::default()).unwrap();
        let item = ResourceLink::container("store", "orders").unwrap().item("4711").unwrap();
        let read = CosmosOperation::new(OperationType::Read, RequestPath::of(item))
            .with_partition_key(PartitionKey::from("contoso"));
        let options = OperationOptions::default();
        let mut fastest = f64::INFINITY;
        let mut allocations = 0;
        for _ in 0..ROUNDS {
            let (before, started) = (ALLOCATIONS.load(Ordering::Relaxed), Instant::now());
            for _ in 0..READS {
                let answer = driver.execute_operation(&read, &options).await.unwrap();
                assert_eq!(answer.body().len(), ITEM.len());
            }
            fastest = fastest.min(started.elapsed().as_secs_f64() / f64::from(READS));
            allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
        }
        let allocations = allocations as f64 / f64::from(READS);
        println!("a point read: {allocations:.2} allocations, {:.0} ns", fastest * 1e9);
    });
}
