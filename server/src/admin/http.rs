//! HTTP for operators: `/commands` (upstream `JettyAdminServer`), `/metrics`.
//!
//! Everything here is read-only but the resets of counters, as upstream's commands without authentication are.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{Html, IntoResponse};
use axum::routing::get;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tracing::error;

use super::commands::{self, Arguments};
use super::{Admin, exposition};

/// Answers in the making: each may hold as much as all watched paths of all sessions.
static IN_FLIGHT: Semaphore = Semaphore::const_new(8);

/// Serves the admin port for ever.
pub async fn serve_admin(listener: TcpListener, admin: Arc<Admin>) {
    let router = commands_router(&admin.config.admin.command_url).route("/metrics", get(metrics));
    serve(listener, router.with_state(admin), "admin port").await;
}

/// Serves the port of `metricsProvider.httpPort` for ever.
pub async fn serve_metrics(listener: TcpListener, admin: Arc<Admin>) {
    let router = Router::new().route("/metrics", get(metrics)).with_state(admin);
    serve(listener, router, "metrics port").await;
}

async fn serve(listener: TcpListener, router: Router, what: &str) {
    if let Err(failure) = axum::serve(listener, router).await {
        error!("{what}: {failure}");
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
    let facts = admin.facts().await;
    // Off the workers that serve clients: a disk that hangs must not take them along.
    let answer = spawn_blocking(move || commands::run(&admin, &facts, &name, &arguments)).await;
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
    let facts = admin.facts().await;
    let text = spawn_blocking(move || exposition::prometheus(&admin, &facts)).await;
    let status = if text.is_ok() { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    (status, [(CONTENT_TYPE, exposition::CONTENT_TYPE)], text.unwrap_or_default())
}
