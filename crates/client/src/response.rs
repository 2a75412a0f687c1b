//! Responses: the item or the properties, the charge, the session, the diagnostics.

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sidereal_driver::diagnostics::DiagnosticsContext;
use sidereal_protocol::headers::ResponseHeaders;
use sidereal_protocol::{CosmosStatus, Etag, RegionName, SessionToken};

use crate::{Error, ErrorKind, Result};

/// The response to a call: what it cost, where it was served, and its content.
///
/// `T` says what the content is: [`Item`] for calls on items, whose type the reader names when it decodes
/// them; a type such as `ContainerProperties` for calls on resources.
pub struct Response<T = Item> {
    inner: sidereal_driver::CosmosResponse,
    content: PhantomData<fn() -> T>,
}

/// The content of a response that is an item, of whatever type the application gives it.
#[derive(Debug)]
pub enum Item {}

/// The response to a call on one item.
pub type ItemResponse = Response<Item>;

impl<T> Response<T> {
    pub(crate) fn new(inner: sidereal_driver::CosmosResponse) -> Self {
        Self { inner, content: PhantomData }
    }

    /// Code and sub-status.
    #[must_use]
    pub fn status(&self) -> CosmosStatus {
        self.inner.status()
    }

    /// The cost in request units, of every attempt that was made.
    #[must_use]
    pub fn request_charge(&self) -> f64 {
        self.diagnostics().charge()
    }

    /// The version of the item or resource.
    #[must_use]
    pub fn etag(&self) -> Option<Etag> {
        self.headers().etag()
    }

    /// The session token after this response: hand it to another process to read your writes there.
    #[must_use]
    pub fn session_token(&self) -> Option<SessionToken> {
        self.headers().session_token()
    }

    /// The id by which the service knows the request.
    #[must_use]
    pub fn activity_id(&self) -> Option<&str> {
        self.headers().activity_id()
    }

    /// The region that served the call.
    #[must_use]
    pub fn region(&self) -> Option<&RegionName> {
        self.diagnostics()
            .attempts()
            .iter()
            .rfind(|it| it.status == Some(self.status()))?
            .region
            .as_ref()
    }

    /// The headers, read as what they mean.
    #[must_use]
    pub fn headers(&self) -> ResponseHeaders<'_> {
        self.inner.headers()
    }

    /// The attempts of the call, with their regions, statuses and times.
    #[must_use]
    pub fn diagnostics(&self) -> &DiagnosticsContext {
        self.inner.diagnostics()
    }

    /// The content as it came; empty where none was asked for.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        self.inner.body()
    }

    /// The content as it came, taken.
    #[must_use]
    pub fn into_body(self) -> Bytes {
        self.inner.into_body()
    }
}

impl Response<Item> {
    /// Whether the item still has the version that `if_none_match_etag` named, so that none came.
    #[must_use]
    pub fn is_not_modified(&self) -> bool {
        self.status().code() == http::StatusCode::NOT_MODIFIED.as_u16()
    }

    /// The item. `serde_json::Value` takes any, `Box<serde_json::value::RawValue>` leaves it as it came.
    ///
    /// ```no_run
    /// # async fn example(orders: sidereal::ContainerClient) -> sidereal::Result<()> {
    /// #[derive(serde::Deserialize)]
    /// struct Order {
    ///     total: u32,
    /// }
    ///
    /// let order: Order = orders.read_item("contoso", "4711", None).await?.into_model()?;
    /// println!("{}", order.total);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidResponse`](crate::ErrorKind::InvalidResponse) if the item does not deserialize as `M`, or the response has no item:
    /// writes return it only with `content_response_on_write`.
    pub fn into_model<M: DeserializeOwned>(self) -> Result<M> {
        self.model()
    }

    /// The item, of a type that may borrow its text from the response.
    ///
    /// ```no_run
    /// # async fn example(orders: sidereal::ContainerClient) -> sidereal::Result<()> {
    /// #[derive(serde::Deserialize)]
    /// struct Order<'a> {
    ///     customer: &'a str,
    /// }
    ///
    /// let response = orders.read_item("contoso", "4711", None).await?;
    /// let order: Order<'_> = response.model()?;
    /// println!("{}", order.customer);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`into_model`](Self::into_model).
    pub fn model<'a, M: Deserialize<'a>>(&'a self) -> Result<M> {
        decode(self.body())
    }
}

impl<P: DeserializeOwned> Response<P> {
    /// The properties of the resource.
    ///
    /// ```no_run
    /// # async fn example(orders: sidereal::ContainerClient) -> sidereal::Result<()> {
    /// let properties = orders.read(None).await?.into_properties()?;
    /// println!("{}", properties.id);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidResponse`](crate::ErrorKind::InvalidResponse) if the response does not hold such properties.
    pub fn into_properties(self) -> Result<P> {
        decode(self.body())
    }
}

/// Reads a content.
pub(crate) fn decode<'a, M: Deserialize<'a>>(body: &'a [u8]) -> Result<M> {
    if body.is_empty() {
        return Err(Error::new(
            ErrorKind::InvalidResponse,
            "the response has no content: set content_response_on_write for a write to bring the item back",
        ));
    }
    serde_json::from_slice(body).map_err(|error| {
        let sentence = format!("the content is not a {}: {error}", std::any::type_name::<M>());
        Error::new(ErrorKind::InvalidResponse, sentence)
    })
}

impl<T> fmt::Debug for Response<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Response")
            .field("status", &self.status())
            .field("bytes", &self.body().len())
            .field("diagnostics", &self.diagnostics().to_json())
            .finish()
    }
}
