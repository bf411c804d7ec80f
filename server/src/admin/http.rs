//! HTTP for operators: `/commands`, `/metrics`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{Html, IntoResponse};
use axum::routing::get;
use tokio::net::TcpListener;
use tracing::error;

use super::{Admin, commands, monitor};

/// Serves the admin port for ever.
pub async fn serve_admin(listener: TcpListener, admin: Arc<Admin>) {
    let url = admin.config.admin.command_url.trim_end_matches('/').to_owned();
    let page = url.clone();
    let links = move || async move {
        let lines: Vec<String> =
            commands::names().map(|name| format!("<a href=\"{page}/{name}\">{name}</a>\n<br/>\n")).collect();
        Html(lines.concat())
    };
    let router = Router::new()
        .route(&url, get(links.clone()))
        .route(&format!("{url}/"), get(links))
        .route(&format!("{url}/{{name}}"), get(command))
        .route("/metrics", get(metrics))
        .with_state(admin);
    serve(listener, router, "admin port").await;
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

async fn command(
    State(admin): State<Arc<Admin>>,
    Path(name): Path<String>,
    Query(arguments): Query<BTreeMap<String, String>>,
) -> impl IntoResponse {
    let answer = commands::run(&admin, &name, &arguments).await;
    // Indented, as upstream's is, so that it can be read in a terminal.
    let text = serde_json::to_string_pretty(&answer).unwrap_or_else(|_| "{}".to_owned());
    ([(CONTENT_TYPE, "application/json")], text)
}

async fn metrics(State(admin): State<Arc<Admin>>) -> impl IntoResponse {
    let facts = admin.facts().await;
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], monitor::prometheus(&admin, &facts))
}
