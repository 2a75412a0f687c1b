//! `sidereal item export`: a container, page by page, as JSON lines.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;
use sidereal::CosmosClient;

use crate::account::{ContainerName, KeyArguments};
use crate::failure::Failure;
use crate::output::{self, OutputError};
use crate::progress::Progress;
use crate::system_properties::without_system_properties;

#[derive(Args, Debug)]
pub(super) struct ExportArguments {
    /// The container, as database/container.
    container: ContainerName,
    /// File to write to [default: standard output]. It is there when the export is whole.
    file: Option<PathBuf>,
    /// Export what this query gives instead.
    #[arg(long, value_name = "SQL", default_value = "SELECT * FROM c")]
    query: String,
    #[command(flatten)]
    key: KeyArguments,
    /// Keep what the service added (_rid, _self, _etag, _attachments, _ts).
    #[arg(long)]
    system: bool,
}

pub(super) async fn export(
    client: &CosmosClient,
    arguments: &ExportArguments,
) -> Result<(), Failure> {
    let mut target = Target::open(arguments.file.as_deref())?;
    let mut query = arguments.container.client(client).query(arguments.query.as_str());
    if let Some(key) = arguments.key.key()? {
        query = query.with_partition_key(key);
    }
    let mut pages = query.pages::<Value>();
    let progress = Progress::new("exported", None);
    let (mut count, mut charge) = (0, 0.0);
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| arguments.container.explain(error))?;
        charge += page.request_charge();
        count += page.items().len();
        for item in page {
            let item = if arguments.system { item } else { without_system_properties(item) };
            target.write(&item)?;
        }
        progress.count(count, 0);
    }
    target.finish()?;
    progress.finish();
    output::note(&format!("Exported {count} items of {}: {charge:.2} RU.", arguments.container));
    Ok(())
}

/// Where the lines go. A file has its name when it is whole: one that is cut off is never taken for an export.
enum Target {
    Standard(BufWriter<io::Stdout>),
    File { text: BufWriter<File>, partial: PathBuf, path: PathBuf },
}

impl Target {
    fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = path.filter(|path| *path != Path::new("-")) else {
            return Ok(Self::Standard(BufWriter::new(io::stdout())));
        };
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let file =
            File::create(&partial).map_err(|error| Failure::file(&partial, "written", error))?;
        Ok(Self::File { text: BufWriter::new(file), partial, path: path.to_owned() })
    }

    fn write(&mut self, item: &Value) -> Result<(), Failure> {
        match self {
            Self::Standard(out) => Ok(writeln!(out, "{item}").map_err(OutputError::from)?),
            Self::File { text, partial, .. } => {
                writeln!(text, "{item}").map_err(|error| Failure::file(partial, "written", error))
            }
        }
    }

    fn finish(mut self) -> Result<(), Failure> {
        match &mut self {
            Self::Standard(out) => Ok(out.flush().map_err(OutputError::from)?),
            Self::File { text, partial, path } => {
                let written = text.flush().and_then(|()| text.get_ref().sync_all());
                written
                    .and_then(|()| fs::rename(&partial, &path))
                    .map_err(|error| Failure::file(path, "written", error))
            }
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Self::File { partial, .. } = self {
            let _ = fs::remove_file(partial); // Gone already where the export is whole.
        }
    }
}
