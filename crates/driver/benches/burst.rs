//! The cost of operations that wait for a connection: memory for each, and how many of a burst succeed.
//!
//!     cargo bench -p sidereal-driver --bench burst
//!
//! Reads begin all at once, far more than there are streams. The client holds the first answers until all of the
//! others wait; what these then keep on the heap beside their futures is counted by the allocator. After that every
//! answer takes 20 ms. More than [`MOST_BYTES`] for each, or a read that fails, fails the benchmark.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the time that it measures")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use sidereal_driver::diagnostics::RequestDiagnostics;
use sidereal_driver::options::CosmosEnvironmentOptions;
use sidereal_driver::transport::{
    Credential, Endpoint, HttpClient, HttpClientConfig, HttpClientFactory, HttpFuture, HttpRequest,
    HttpResponse,
};
use sidereal_driver::{CosmosDriver, CosmosDriverRuntime, CosmosOperation};
use sidereal_protocol::{AccountKey, OperationType, PartitionKey, RequestPath, ResourceLink};
use sidereal_testing::at_once::AtOnce;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Counts the bytes that are allocated, and passes on to the system's allocator.
struct Counting;

static LIVE: AtomicI64 = AtomicI64::new(0);

fn count(bytes: usize, sign: i64) {
    // Relaxed: a counter that is read while nothing else runs.
    LIVE.fetch_add(sign * i64::try_from(bytes).unwrap_or(i64::MAX), Ordering::Relaxed);
}

#[allow(unsafe_code, reason = "an allocator is unsafe by its trait; this one only counts")]
// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: the pointer came from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(layout.size(), -1);
        count(size, 1);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes on the heap for each read that waits.
const MOST_BYTES: i64 = 2 * 1024;

/// How long an answer takes.
const LATENCY: Duration = Duration::from_millis(20);

/// Answers after the latency, once the gate is open.
#[derive(Clone, Debug)]
struct Gated {
    inner: AtOnce,
    is_open: watch::Receiver<bool>,
}

impl HttpClient for Gated {
    fn execute<'a>(
        &'a self,
        request: HttpRequest,
        diagnostics: &'a mut RequestDiagnostics,
    ) -> HttpFuture<'a, HttpResponse> {
        Box::pin(async move {
            let mut is_open = self.is_open.clone();
            if !*is_open.borrow_and_update() {
                is_open.wait_for(|is_open| *is_open).await.unwrap();
            }
            tokio::time::sleep(LATENCY).await;
            self.inner.execute(request, diagnostics).await
        })
    }
}

impl HttpClientFactory for Gated {
    fn create(&self, _: &Endpoint, _: &HttpClientConfig) -> Arc<dyn HttpClient> {
        Arc::new(self.clone())
    }
}

fn main() {
    println!("reads at once   future   bytes beside it   succeeded    time");
    for reads in [5_000, 50_000] {
        let tokio = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        tokio.block_on(burst(reads));
    }
}

async fn burst(count: usize) {
    let (gate, is_open) = watch::channel(true);
    let runtime = CosmosDriverRuntime::builder()
        .environment(CosmosEnvironmentOptions::default())
        .http_client_factory(Arc::new(Gated { inner: AtOnce::default(), is_open }))
        .build()
        .unwrap();
    let key = AccountKey::from_base64("c2lkZXJlYWwtdGVzdC1hY2NvdW50LWtleS1zaWRlcmVhbA==").unwrap();
    let endpoint = "https://contoso.documents.azure.com/".parse().unwrap();
    let driver = Arc::new(
        CosmosDriver::new(runtime, endpoint, Credential::Key(key), Default::default()).unwrap(),
    );
    let container = ResourceLink::container("store", "orders").unwrap();
    driver.container(&container).await.unwrap();
    let item = container.item("4711").unwrap();
    let read = CosmosOperation::new(OperationType::Read, RequestPath::of(item))
        .with_partition_key(PartitionKey::from("contoso"));
    let read = Arc::new(read);
    driver.execute_operation(&read, &Default::default()).await.unwrap();
    gate.send_replace(false);

    let begin = |_| {
        let (driver, read) = (Arc::clone(&driver), Arc::clone(&read));
        Box::pin(async move { driver.execute_operation(&read, &Default::default()).await.is_ok() })
    };
    let mut futures: Vec<Pin<Box<_>>> = (0..count).map(begin).collect();
    let size = size_of_val(&*futures[0]);
    let started = Instant::now();
    let before = LIVE.load(Ordering::Relaxed);
    std::future::poll_fn(|context| {
        for future in &mut futures {
            assert!(future.as_mut().poll(context).is_pending(), "the gate is closed");
        }
        Poll::Ready(())
    })
    .await;
    let each = (LIVE.load(Ordering::Relaxed) - before) / i64::try_from(count).unwrap();
    gate.send_replace(true);
    let mut tasks: JoinSet<bool> = futures.into_iter().collect();
    let mut succeeded = 0;
    while let Some(outcome) = tasks.join_next().await {
        succeeded += usize::from(outcome.unwrap());
    }
    let took = started.elapsed();
    println!("{count:>13}   {size:>6}   {each:>15}   {succeeded:>9}   {took:>5.2?}");
    assert_eq!(succeeded, count);
    assert!(each <= MOST_BYTES, "{each} bytes for each read that waits");
}
