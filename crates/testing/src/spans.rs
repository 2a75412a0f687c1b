//! A tracer provider of OpenTelemetry that keeps spans in memory.
//!
//! The SDK has one under its feature `testing`, which brings a second version of `rand`.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{
    Event, Span, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags,
    TraceId, TraceState, Tracer, TracerProvider,
};
use opentelemetry::{Context, InstrumentationScope, KeyValue};

/// A span that has ended.
#[derive(Clone, Debug)]
pub struct RecordedSpan {
    /// The name of the span.
    pub name: String,
    /// On which side of a call it is.
    pub kind: Option<SpanKind>,
    /// By key, values as text.
    pub attributes: Vec<(String, String)>,
    /// How it ended.
    pub status: Status,
    /// How long it took.
    pub took: Duration,
    /// The attributes of each event.
    pub events: Vec<Vec<(String, String)>>,
    /// The span that was current when it was made.
    pub parent: Option<SpanId>,
    /// Its own id.
    pub id: SpanId,
}

impl RecordedSpan {
    /// The value of an attribute.
    #[must_use]
    pub fn attribute(&self, key: &str) -> Option<&str> {
        self.attributes.iter().find(|(it, _)| it == key).map(|(_, value)| value.as_str())
    }
}

/// The spans that have ended.
#[derive(Clone, Debug, Default)]
pub struct RecordedSpans {
    ended: Arc<Mutex<Vec<RecordedSpan>>>,
    ids: Arc<AtomicU64>,
}

impl RecordedSpans {
    /// Those that have ended since they were last taken.
    #[must_use]
    pub fn take(&self) -> Vec<RecordedSpan> {
        std::mem::take(&mut *self.ended.lock().unwrap())
    }
}

impl TracerProvider for RecordedSpans {
    type Tracer = Self;

    fn tracer_with_scope(&self, _: InstrumentationScope) -> Self {
        self.clone()
    }
}

impl Tracer for RecordedSpans {
    type Span = RecordingSpan;

    fn build_with_context(&self, builder: SpanBuilder, parent: &Context) -> RecordingSpan {
        // Relaxed: a number that is not to be given twice, nothing more.
        let number = self.ids.fetch_add(1, Ordering::Relaxed) + 1;
        let id = SpanId::from(number);
        let of_parent = parent.span().span_context().clone();
        let trace = match of_parent.is_valid() {
            true => of_parent.trace_id(),
            false => TraceId::from(u128::from(number)),
        };
        let context =
            SpanContext::new(trace, id, TraceFlags::SAMPLED, false, TraceState::default());
        RecordingSpan {
            spans: self.clone(),
            parent: of_parent.is_valid().then(|| of_parent.span_id()),
            context,
            status: Status::Unset,
            started: builder.start_time.unwrap_or_else(SystemTime::now),
            builder,
        }
    }
}

/// A span that has not ended.
#[derive(Debug)]
pub struct RecordingSpan {
    spans: RecordedSpans,
    builder: SpanBuilder,
    context: SpanContext,
    parent: Option<SpanId>,
    status: Status,
    started: SystemTime,
}

impl Span for RecordingSpan {
    fn add_event_with_timestamp<T>(&mut self, name: T, at: SystemTime, attributes: Vec<KeyValue>)
    where
        T: Into<Cow<'static, str>>,
    {
        let event = Event::new(name, at, attributes, 0);
        self.builder.events.get_or_insert_default().push(event);
    }

    fn span_context(&self) -> &SpanContext {
        &self.context
    }

    fn is_recording(&self) -> bool {
        true
    }

    fn set_attribute(&mut self, attribute: KeyValue) {
        self.builder.attributes.get_or_insert_default().push(attribute);
    }

    fn set_status(&mut self, status: Status) {
        self.status = status;
    }

    fn update_name<T>(&mut self, name: T)
    where
        T: Into<Cow<'static, str>>,
    {
        self.builder.name = name.into();
    }

    fn add_link(&mut self, _: SpanContext, _: Vec<KeyValue>) {}

    fn end_with_timestamp(&mut self, at: SystemTime) {
        let events = self.builder.events.iter().flatten();
        let ended = RecordedSpan {
            name: self.builder.name.to_string(),
            kind: self.builder.span_kind.clone(),
            attributes: texts(self.builder.attributes.as_deref().unwrap_or_default()),
            status: self.status.clone(),
            took: at.duration_since(self.started).unwrap_or_default(),
            events: events.map(|it| texts(&it.attributes)).collect(),
            parent: self.parent,
            id: self.context.span_id(),
        };
        self.spans.ended.lock().unwrap().push(ended);
    }
}

fn texts(attributes: &[KeyValue]) -> Vec<(String, String)> {
    attributes.iter().map(|it| (it.key.to_string(), it.value.to_string())).collect()
}
