//! Where a link leads: a Redis server over TCP, or over TLS, which ends here.
//!
//! Invariant: certificates are verified unless the user asks otherwise. TLS ends in the proxy, because faults must see
//! frames; the client's leg is plain TCP, on loopback by default. Client certificates are not supported.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::verify_tls13_signature;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{
    CertificateDer, InvalidDnsNameError, ServerName, UnixTime, pem,
};
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

/// Where a link leads.
#[derive(Clone, Debug)]
pub enum Upstream {
    /// A server on plain TCP.
    Tcp(SocketAddr),
    /// A server on TLS; see [`Upstream::tls`].
    Tls {
        /// The host to connect to.
        host: String,
        /// Its port.
        port: u16,
        /// The name the certificate must bear.
        name: ServerName<'static>,
        /// Roots and ciphers.
        config: Arc<ClientConfig>,
    },
}

/// Which server certificates are trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Those the system trusts.
    System,
    /// Those the system trusts, and those issued by the certificates in this PEM file.
    SystemAnd(PathBuf),
    /// Any certificate.
    Anyone,
}

impl Trust {
    /// Whether its file can be read, before anything is connected to.
    ///
    /// # Errors
    /// [`TlsError`] if the CA file cannot be used.
    pub fn check(&self) -> Result<(), TlsError> {
        match self {
            Self::SystemAnd(path) => roots(Some(path)).map(drop),
            Self::System | Self::Anyone => Ok(()),
        }
    }
}

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The CA file cannot be read or holds no certificate.
    #[error("cannot read certificates from {path}: {source}", path = path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: pem::Error,
    },
    /// A certificate of the CA file is no authority.
    #[error("{path} contains a certificate that is not a valid root: {source}", path = path.display())]
    BadRoot {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: Error,
    },
    /// There is nothing to trust.
    #[error("the system has no trusted certificates: give a CA file, or accept any certificate")]
    NoRoots,
    /// The host is neither a name nor an address.
    #[error("`{host}` is not a valid host name")]
    HostName {
        /// What was given.
        host: String,
        /// What is wrong.
        source: InvalidDnsNameError,
    },
    /// The provider lacks what TLS needs.
    #[error("cannot set up TLS: {0}")]
    Setup(Error),
}

impl Upstream {
    /// A server on TLS, certificates checked by `trust`.
    ///
    /// # Errors
    /// [`TlsError`] if the host name, the roots or the CA file cannot be used.
    pub fn tls(host: &str, port: u16, trust: &Trust) -> Result<Self, TlsError> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|source| TlsError::HostName { host: host.to_owned(), source })?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Setup)?;
        let config = match trust {
            Trust::System => builder.with_root_certificates(roots(None)?),
            Trust::SystemAnd(path) => builder.with_root_certificates(roots(Some(path))?),
            Trust::Anyone => {
                let anyone = Arc::new(Anyone(provider));
                builder.dangerous().with_custom_certificate_verifier(anyone)
            }
        };
        let config = Arc::new(config.with_no_client_auth());
        Ok(Self::Tls { host: host.to_owned(), port, name, config })
    }

    /// The server's address, if it is not a name.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp(addr) => Some(addr.ip()),
            Self::Tls { host, .. } => host.parse().ok(),
        }
    }
}

fn roots(extra: Option<&Path>) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    // A certificate of the system's store that cannot be read is left out: a server that needs it is
    // refused, which is the safe side.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = extra {
        let bad_file = |source| TlsError::CaFile { path: path.to_owned(), source };
        let certificates = CertificateDer::pem_file_iter(path).map_err(bad_file)?;
        let before = roots.len();
        for certificate in certificates {
            roots
                .add(certificate.map_err(bad_file)?)
                .map_err(|source| TlsError::BadRoot { path: path.to_owned(), source })?;
        }
        if roots.len() == before {
            return Err(bad_file(pem::Error::NoItemsFound));
        }
    }
    if roots.is_empty() { Err(TlsError::NoRoots) } else { Ok(roots) }
}

/// Trusts every certificate, but still checks that the handshake is signed with it.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A connection to a server.
pub enum Stream {
    /// As it is.
    Tcp(TcpStream),
    /// Encrypted.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Connects, and shakes hands where that is needed.
    ///
    /// # Errors
    /// Nothing listens there, or the handshake fails.
    pub async fn connect(upstream: &Upstream) -> io::Result<Self> {
        match upstream {
            Upstream::Tcp(addr) => {
                let stream = TcpStream::connect(addr).await?;
                stream.set_nodelay(true)?;
                Ok(Self::Tcp(stream))
            }
            Upstream::Tls { host, port, name, config } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                let connector = TlsConnector::from(Arc::clone(config));
                Ok(Self::Tls(Box::new(connector.connect(name.clone(), stream).await?)))
            }
        }
    }
}
