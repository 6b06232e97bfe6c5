//! Certificates: read at the start, and again when somebody says so.

use super::TlsSettings;
use anyhow::{Context, Result};
use axum_server::tls_rustls::RustlsConfig;
use rustls::crypto::aws_lc_rs;

/// Reads certificate and key.
pub async fn read(settings: &TlsSettings) -> Result<RustlsConfig> {
    // Whoever came first has chosen; there is only this one.
    let _ = aws_lc_rs::default_provider().install_default();
    let config = RustlsConfig::from_pem_file(&settings.certificate, &settings.key).await;
    config.with_context(|| wrong(settings))
}

/// Reads them again. Connections that are open keep the old ones; when the new ones are wrong, so do new connections.
pub async fn reload(config: &RustlsConfig, settings: &TlsSettings) -> Result<()> {
    let reloaded = config.reload_from_pem_file(&settings.certificate, &settings.key).await;
    reloaded.with_context(|| wrong(settings))
}

fn wrong(settings: &TlsSettings) -> String {
    let TlsSettings { certificate, key } = settings;
    format!("the certificate {} and its key {} cannot be used", certificate.display(), key.display())
}
