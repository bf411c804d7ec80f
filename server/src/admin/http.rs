//! HTTP for operators: `/commands` (upstream `JettyAdminServer`), `/metrics`.
//!
//! Everything here is read-only but the resets of counters, as upstream's commands without authentication are.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{Html, IntoResponse};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use tracing::{debug, error, warn};

use super::commands::{self, Arguments};
use super::{Admin, exposition};

/// Answers in the making: each may hold as much as all watched paths of all sessions.
static IN_FLIGHT: Semaphore = Semaphore::const_new(8);

/// Connections of one port. Each costs a descriptor and hyper's buffers, [`BUFFER_MAX`] for what comes and about as much
/// for what goes: 4 MiB in all. More than these wait in the listen queue until one of them ends.
const CONNECTIONS_MAX: usize = 64;
/// Bytes of a request's head, at most.
const BUFFER_MAX: usize = 32 << 10;
/// Life of a connection, after which it closes behind the answer it is at. With the idle limit it is what makes sure that
/// places come free.
const CONNECTION_LIMIT: Duration = Duration::from_secs(120);

/// Serves the admin port for ever.
pub async fn serve_admin(listener: TcpListener, admin: Arc<Admin>) {
    let router = commands_router(&admin.config.admin.command_url).route("/metrics", get(metrics));
    let idle = admin.config.admin.idle_timeout;
    serve(listener, router.with_state(admin), idle, "admin port").await;
}

/// Serves the port of `metricsProvider.httpPort` for ever.
pub async fn serve_metrics(listener: TcpListener, admin: Arc<Admin>) {
    let idle = admin.config.admin.idle_timeout;
    let router = Router::new().route("/metrics", get(metrics)).with_state(admin);
    serve(listener, router, idle, "metrics port").await;
}

async fn serve(listener: TcpListener, router: Router, idle: Duration, what: &'static str) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let router = router.clone();
                tokio::spawn(async move {
                    connection(stream, router, idle, what).await;
                    drop(place);
                });
            }
            Err(failure) => {
                // Out of file descriptors, most likely: others must end first.
                warn!("{what}: accept failed: {failure}");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Serves one connection: `idle` for the head of a request, the first as well as those after it; [`CONNECTION_LIMIT`] for
/// all, and `idle` again for an answer that nobody takes.
async fn connection(stream: TcpStream, router: Router, idle: Duration, what: &str) {
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(idle)
        .max_buf_size(BUFFER_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut serving = std::pin::pin!(serving);
    let ended = match timeout(CONNECTION_LIMIT, serving.as_mut()).await {
        Ok(ended) => ended,
        Err(_) => {
            serving.as_mut().graceful_shutdown();
            timeout(idle, serving).await.unwrap_or(Ok(()))
        }
    };
    if let Err(failure) = ended {
        debug!("{what}: {failure}");
    }
}

/// The page of links and the commands, below `admin.commandURL`.
fn commands_router(url: &str) -> Router<Arc<Admin>> {
    let url = format!("/{}", url.trim_matches('/'));
    let url = url.trim_end_matches('/');
    let link = |name: &str| format!("<a href=\"{url}/{name}\">{name}</a>\n<br/>\n");
    let page: String = commands::names().into_iter().map(link).collect();
    let links = move || async move { Html(page) };
    let router = Router::new()
        .route(&format!("{url}/"), get(links.clone()))
        .route(&format!("{url}/{{name}}"), get(command).post(command));
    if url.is_empty() { router } else { router.route(url, get(links)) }
}

async fn command(
    State(admin): State<Arc<Admin>>,
    Path(name): Path<String>,
    Query(arguments): Query<Arguments>,
) -> impl IntoResponse {
    let _turn = IN_FLIGHT.acquire().await;
    let picture = admin.picture().await;
    // Off the workers that serve clients: a disk that hangs must not take them along.
    let answer = spawn_blocking(move || commands::run(&admin, &picture, &name, &arguments)).await;
    let (status, value) = answer.unwrap_or_else(|failure| {
        error!("admin port: {failure}");
        (StatusCode::INTERNAL_SERVER_ERROR, json!({ "command": null, "error": failure.to_string() }))
    });
    (status, [(CONTENT_TYPE, "application/json")], pretty(&value))
}

/// Indented, as upstream's is, so that it can be read in a terminal.
fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value)
        .unwrap_or_else(|failure| json!({ "error": failure.to_string() }).to_string())
}

async fn metrics(State(admin): State<Arc<Admin>>) -> impl IntoResponse {
    let _turn = IN_FLIGHT.acquire().await;
    let facts = admin.picture().await.facts;
    let text = spawn_blocking(move || exposition::prometheus(&admin, &facts)).await;
    let status = if text.is_ok() { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    (status, [(CONTENT_TYPE, exposition::CONTENT_TYPE)], text.unwrap_or_default())
}
