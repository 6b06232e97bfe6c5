//! [`ServerSettings`]: the configuration file of `keyfold serve`, and what the command line says instead.

use super::HttpLimits;
use crate::service::model::Quotas;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Where a server listens when nobody says: on this machine only.
pub const LISTEN_DEFAULT: &str = "127.0.0.1:8420";

/// The configuration file. Absent settings have defaults; the command line goes before.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct ServerSettings {
    /// The data folder.
    pub data: Option<PathBuf>,
    /// The address that it listens on.
    pub listen: Option<SocketAddr>,
    /// The certificate and its key, without which nothing is encrypted.
    pub tls: Option<TlsSettings>,
    /// Whether tokens and events may travel unencrypted over a network.
    pub insecure_http: bool,
    /// A file for the first platform token, instead of standard output.
    pub admin_token_file: Option<PathBuf>,
    /// What to log.
    pub log: Option<String>,
    /// Whether log lines are JSON.
    pub log_json: bool,
    /// A collector of OpenTelemetry traces: the URL that OTLP over HTTP is posted to.
    pub otlp: Option<String>,
    /// How much a client may ask of the server itself.
    pub http: HttpLimits,
    /// Quotas of tenants for which nothing else is said.
    pub quotas: Quotas,
}

/// Where certificate and key lie, in PEM form.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TlsSettings {
    /// The certificate, with those between it and its authority behind it.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl ServerSettings {
    /// Reads a configuration file. Unknown keys are an error that lists them all. Paths are relative to the file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let settings = Self::parse(&text).with_context(|| format!("{} is not a configuration", path.display()))?;
        Ok(settings.relative_to(path.parent().unwrap_or(Path::new(""))))
    }

    /// Reads the text of a configuration file.
    pub fn parse(text: &str) -> Result<Self> {
        let mut unknown = Vec::new();
        let document = toml::Deserializer::parse(text)?;
        let settings = serde_ignored::deserialize(document, |path| unknown.push(path.to_string()))?;
        ensure!(unknown.is_empty(), "unknown keys: {}", unknown.join(", "));
        Ok(settings)
    }

    /// The address to listen on. One that others can reach must be encrypted, unless somebody insists.
    pub fn address(&self) -> Result<SocketAddr> {
        let address = match self.listen {
            Some(address) => address,
            None => LISTEN_DEFAULT.parse().context("the default is an address")?,
        };
        ensure!(
            address.ip().is_loopback() || self.tls.is_some() || self.insecure_http,
            "{address} can be reached from other machines, and tokens would travel unencrypted: set [tls] certificate and \
             key, or say --insecure-http when something before this server encrypts"
        );
        Ok(address)
    }

    fn relative_to(self, folder: &Path) -> Self {
        let join = |path: PathBuf| folder.join(path);
        ServerSettings {
            data: self.data.map(join),
            tls: self.tls.map(|tls| TlsSettings { certificate: join(tls.certificate), key: join(tls.key) }),
            admin_token_file: self.admin_token_file.map(join),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_read_with_paths_relative_to_it() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("keyfold.toml");
        let text = "data = 'd'\nlisten = '0.0.0.0:1'\n[tls]\ncertificate = 'c.pem'\nkey = '/k.pem'\n\
                    [http]\nbody-timeout = '5s'\n[quotas]\nrules = 7\n";
        std::fs::write(&path, text).expect("the disk has room");
        let settings = ServerSettings::read(&path).expect("it is right");
        assert_eq!(settings.data, Some(folder.path().join("d")));
        let tls = settings.tls.as_ref().expect("it has one");
        assert_eq!((&tls.certificate, &tls.key), (&folder.path().join("c.pem"), &PathBuf::from("/k.pem")));
        assert_eq!(settings.http.body_timeout.as_secs(), 5);
        assert_eq!(settings.quotas.rules, Some(7));
        assert!(settings.address().is_ok());
    }

    #[test]
    fn unknown_keys_are_refused() {
        for text in ["prot = 1\nhots = 2", "[http]\nconections = 3", "[quotas]\nrule = 1"] {
            let error = format!("{:#}", ServerSettings::parse(text).expect_err(text));
            assert!(error.contains("unknown"), "{error}");
        }
    }

    #[test]
    fn an_address_that_others_can_reach_needs_tls_or_somebody_who_insists() {
        let with = |text: &str| ServerSettings::parse(text).expect("it parses").address();
        assert!(with("").is_ok_and(|address| address.ip().is_loopback()));
        assert!(with("listen = '[::1]:1'").is_ok());
        let error = with("listen = '0.0.0.0:1'").expect_err("nothing is encrypted").to_string();
        assert!(error.contains("--insecure-http"), "{error}");
        assert!(with("listen = '0.0.0.0:1'\ninsecure-http = true").is_ok());
    }
}
