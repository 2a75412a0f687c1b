//! The certificate that the server shows: made here, and kept in files between runs.

mod files;
mod self_signed;

pub(crate) use files::load_or_create;
pub(crate) use self_signed::{Certificate, CertificateError, CertificateNames};
