//! Keeping the certificate between runs, so that a client has to be told to trust it only once.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::self_signed::{Certificate, CertificateError, CertificateNames};

const CERTIFICATE_FILE: &str = "certificate.pem";
const KEY_FILE: &str = "certificate.key";

/// Held while the files are read or written: of two emulators that start at once, one makes the
/// certificate and both use it.
const LOCK_FILE: &str = "certificate.lock";

/// A certificate that is kept in a directory.
#[derive(Debug)]
pub(crate) struct StoredCertificate {
    pub(crate) certificate: Certificate,
    /// The file that clients are pointed to.
    pub(crate) path: PathBuf,
}

/// Why a certificate cannot be kept in a directory.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error("the directory cannot be written to")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

/// The certificate kept in a directory; a new one where there is none or the old one is of no use.
pub(crate) fn load_or_create(
    directory: &Path,
    now: SystemTime,
    names: &CertificateNames,
) -> Result<StoredCertificate, StoreError> {
    fs::create_dir_all(directory)?;
    let lock = File::create(directory.join(LOCK_FILE))?;
    lock.lock()?; // An advisory lock (flock); released when the file is closed, also by a crash.
    let path = directory.join(CERTIFICATE_FILE);
    if let Some(certificate) = load(directory).filter(|certificate| certificate.is_good(now, names))
    {
        return Ok(StoredCertificate { certificate, path });
    }
    let certificate = Certificate::generate(now, names)?;
    // The key first: a crash in between leaves a pair that does not match, which the next start replaces.
    replace(&directory.join(KEY_FILE), certificate.key_pem().expose_secret(), 0o600)?;
    replace(&path, certificate.pem(), 0o644)?;
    Ok(StoredCertificate { certificate, path })
}

fn load(directory: &Path) -> Option<Certificate> {
    let pem = fs::read_to_string(directory.join(CERTIFICATE_FILE)).ok()?;
    let key_pem = fs::read_to_string(directory.join(KEY_FILE)).ok()?;
    Some(Certificate::from_pem(pem, key_pem.into()))
}

/// Replaces a file atomically: written beside it under another name, with its mode from the start, then
/// renamed. A reader sees the old file or the new one.
fn replace(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let beside = path.with_extension("new");
    // Left over from a crash; `create_new` below refuses an existing file, or a link planted in its place.
    if let Err(error) = fs::remove_file(&beside)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    #[cfg(not(unix))]
    let _ = mode; // The directory's own permissions apply.
    options.open(&beside)?.write_all(text.as_bytes())?;
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn names() -> CertificateNames {
        CertificateNames::new([127, 0, 0, 1].into(), None)
    }

    /// A directory of its own, removed at the end.
    struct Directory(PathBuf);

    impl Directory {
        fn new() -> Self {
            Self(std::env::temp_dir().join(format!("sidereal-test-{}", uuid::Uuid::new_v4())))
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0); // Best effort: the system empties its own.
        }
    }

    #[test]
    fn the_second_start_finds_the_certificate_of_the_first() {
        let directory = Directory::new();
        let now = SystemTime::now();
        let first = load_or_create(&directory.0, now, &names()).unwrap();
        let second = load_or_create(&directory.0, now, &names()).unwrap();
        assert_eq!(first.certificate.pem(), second.certificate.pem());
        assert_eq!(fs::read_to_string(&second.path).unwrap(), first.certificate.pem());
    }

    #[test]
    fn damaged_files_and_an_expired_certificate_are_replaced() {
        let directory = Directory::new();
        let now = SystemTime::now();
        let first = load_or_create(&directory.0, now, &names()).unwrap();
        fs::write(directory.0.join(KEY_FILE), "not a key").unwrap();
        let second = load_or_create(&directory.0, now, &names()).unwrap();
        assert_ne!(first.certificate.pem(), second.certificate.pem());

        let years_later = now + Duration::from_secs(3 * 365 * 24 * 60 * 60);
        let third = load_or_create(&directory.0, years_later, &names()).unwrap();
        assert_ne!(second.certificate.pem(), third.certificate.pem());
    }

    #[test]
    fn a_certificate_without_a_name_that_is_needed_is_replaced() {
        let directory = Directory::new();
        let now = SystemTime::now();
        let first = load_or_create(&directory.0, now, &names()).unwrap();
        let more = CertificateNames::new([192, 0, 2, 1].into(), None);
        let second = load_or_create(&directory.0, now, &more).unwrap();
        assert_ne!(first.certificate.pem(), second.certificate.pem());
        // One that has more names than are needed stays: clients trust it already.
        let third = load_or_create(&directory.0, now, &names()).unwrap();
        assert_eq!(second.certificate.pem(), third.certificate.pem());
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_can_read_the_private_key() {
        use std::os::unix::fs::PermissionsExt;
        let directory = Directory::new();
        load_or_create(&directory.0, SystemTime::now(), &names()).unwrap();
        let mode = fs::metadata(directory.0.join(KEY_FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn emulators_that_start_at_once_agree_on_one_certificate() {
        let directory = Directory::new();
        let path = directory.0.as_path();
        let pems: Vec<String> = std::thread::scope(|scope| {
            let starts: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| load_or_create(path, SystemTime::now(), &names()).unwrap()))
                .collect();
            starts.into_iter().map(|s| s.join().unwrap().certificate.pem().to_owned()).collect()
        });
        assert!(pems.iter().all(|pem| *pem == pems[0]));
    }
}
