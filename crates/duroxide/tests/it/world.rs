//! An account in this process, on tokio's time, whose requests can be counted, answered and interrupted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sidereal::driver::CosmosDriverRuntime;
use sidereal::driver::system::Clock;
use sidereal::driver::transport::{HttpClientFactory, HttpRequest, HttpResponse};
use sidereal::options::{CosmosClientOptions, CosmosEnvironmentOptions, RegionOptions};
use sidereal::prelude::*;
use sidereal_duroxide::{CosmosDBProvider, CosmosDBProviderConfig};
use sidereal_testing::in_process::scripting::ScriptedFactory;
use sidereal_testing::in_process::{
    InProcessAccount, InterruptingFactory, Interruption, NetworkFaults,
};

/// An account whose requests can be interrupted.
pub(crate) struct World {
    pub(crate) account: InProcessAccount,
    pub(crate) network: InterruptingFactory,
    processes: AtomicU64,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::of(InProcessAccount::with_regions(&["West US"], 1, NetworkFaults::NONE))
    }

    pub(crate) fn of(account: InProcessAccount) -> Self {
        let network = InterruptingFactory::before(account.factory());
        Self { account, network, processes: AtomicU64::new(100) }
    }

    /// One whose requests about items are answered by a script first.
    pub(crate) fn scripted(
        script: impl Fn(&HttpRequest) -> Option<HttpResponse> + Send + Sync + 'static,
    ) -> Self {
        let world = Self::new();
        let network = ScriptedFactory::before(world.account.factory(), script);
        Self { network: InterruptingFactory::before(network), ..world }
    }

    /// One whose requests of any kind are answered by a script first.
    pub(crate) fn scripted_for_all(
        script: impl Fn(&HttpRequest) -> Option<HttpResponse> + Send + Sync + 'static,
    ) -> Self {
        let world = Self::new();
        let network = ScriptedFactory::before_all(world.account.factory(), script);
        Self { network: InterruptingFactory::before(network), ..world }
    }

    pub(crate) fn client(&self) -> CosmosClient {
        self.client_with(CosmosClientOptions::default())
    }

    fn client_with(&self, options: CosmosClientOptions) -> CosmosClient {
        let runtime = CosmosDriverRuntime::builder()
            .environment(CosmosEnvironmentOptions::default())
            .http_client_factory(Arc::new(self.network.clone()) as Arc<dyn HttpClientFactory>)
            .clock(self.account.driver_clock())
            .build()
            .unwrap();
        CosmosClient::builder(self.account.endpoint().as_str(), self.account.credential())
            .runtime(runtime)
            .options(options)
            .build()
            .unwrap()
    }

    /// A process of its own: its connections, its session, what it remembers of locks.
    pub(crate) async fn provider(&self) -> CosmosDBProvider {
        self.provider_on(self.clock()).await
    }

    /// A process that has looked for what others left to be delivered: the requests that follow are its calls'.
    pub(crate) async fn settled(&self) -> CosmosDBProvider {
        let provider = self.provider().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        provider
    }

    /// A process that reads in a region.
    pub(crate) async fn provider_in(&self, region: &str) -> CosmosDBProvider {
        CosmosDBProvider::new(self.config_in(region)).await.unwrap()
    }

    /// The configuration of such a process.
    pub(crate) fn config_in(&self, region: &str) -> CosmosDBProviderConfig {
        let regions = RegionOptions {
            preferred_regions: Some(vec![region.to_owned().into()]),
            ..RegionOptions::default()
        };
        let client = self.client_with(CosmosClientOptions { regions, ..Default::default() });
        CosmosDBProviderConfig::with_client(client).with_clock(self.clock())
    }

    /// The account's time; each process draws ids of its own.
    pub(crate) fn clock(&self) -> Clock {
        // Relaxed: only the number itself is shared.
        let seed = self.processes.fetch_add(1, Ordering::Relaxed);
        Clock::simulated(seed, self.account.driver_clock().wall())
    }

    /// A process whose clock may be wrong.
    pub(crate) async fn provider_on(&self, clock: Clock) -> CosmosDBProvider {
        let config = CosmosDBProviderConfig::with_client(self.client());
        CosmosDBProvider::new(config.with_clock(clock)).await.unwrap()
    }

    /// Runs something that is interrupted at a request; a process that stops is gone. Says how many requests
    /// there were.
    pub(crate) async fn interrupt(
        &self,
        at: usize,
        interruption: Interruption,
        run: impl AsyncFnOnce(&CosmosDBProvider),
    ) -> usize {
        let provider = self.provider().await;
        self.network.arm(at, interruption);
        tokio::select! {
            () = run(&provider) => {}
            () = self.network.stopped() => {}
        }
        let seen = self.network.disarm();
        // What it holds is held until it expires.
        drop(provider);
        tokio::time::sleep(Duration::from_secs(10)).await;
        seen
    }

    pub(crate) async fn count(&self, kind: &str) -> usize {
        let container = self.container();
        let query = container.query("SELECT VALUE c.id FROM c WHERE c.type = @kind");
        let found = query.with_parameter("@kind", kind).items::<String>().collect().await;
        found.unwrap().len()
    }

    /// How many requests about items something takes.
    pub(crate) async fn requests<T>(&self, run: impl Future<Output = T>) -> (T, usize) {
        self.network.arm(usize::MAX, Interruption::StopBefore);
        let done = run.await;
        (done, self.network.disarm())
    }

    pub(crate) fn container(&self) -> ContainerClient {
        self.client().database("duroxide").container("duroxide")
    }
}
