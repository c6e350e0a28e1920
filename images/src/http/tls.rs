//! TLS: rustls with the ciphers of graviola, and the host's root certificates.

use rustls::crypto::{CryptoProvider, KeyProvider};
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::SigningKey;
use std::io;
use std::sync::Arc;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// Clients here have no certificate. So no code that signs is linked, which is 0.1 MB.
#[derive(Debug)]
struct NoKeys;

impl KeyProvider for NoKeys {
    fn load_private_key(
        &self,
        _: PrivateKeyDer<'static>,
    ) -> Result<Arc<dyn SigningKey>, rustls::Error> {
        let text = "certificates of clients are not supported";
        Err(rustls::Error::General(text.into()))
    }
}

/// Errors: this processor lacks what the ciphers are made of, or the host has no
/// root certificates.
pub(super) fn config() -> io::Result<TlsConfig> {
    let has_all = is_x86_feature_detected!("aes")
        && is_x86_feature_detected!("pclmulqdq")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("adx")
        && is_x86_feature_detected!("avx2");
    if !has_all {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "https needs a processor with AES, PCLMULQDQ, BMI, ADX and AVX2; use http, \
             or download it first",
        ));
    }
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            "this machine has no root certificates to know the server by; install \
             ca-certificates, or name a file of them in SSL_CERT_FILE",
        ));
    }
    let roots = found.certs.iter();
    let roots: Vec<_> = roots
        .map(|der| Certificate::from_der(der).to_owned())
        .collect();
    let provider = CryptoProvider {
        key_provider: &NoKeys,
        ..rustls_graviola::default_provider()
    };
    Ok(TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(provider))
        .root_certs(RootCerts::new_with_certs(&roots))
        .build())
}
