//! An account that is kept on disk: what was answered is there again, whatever ended the process.

mod directory;
mod disk;
mod power_loss;
mod twin;
mod write_ahead_log;
