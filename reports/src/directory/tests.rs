//! Directories come and go as they should, and nothing half-written is ever seen.

use std::os::unix::fs::PermissionsExt;

use super::*;

const STAMP: &str = "20261121T061500Z";

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(|it| it.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|it| it.into_string().unwrap()).collect();
    names.sort();
    names
}

fn filled(out: &Path, seed: u64) -> RunDirectory {
    let run = RunDirectory::create(out, "pool", STAMP, seed).unwrap();
    run.write("a.txt", |w| w.write_all(b"a")).unwrap();
    run
}

#[test]
fn a_run_has_its_scenario_time_and_seed_in_its_path() {
    let out = tempfile::tempdir().unwrap();
    let first = filled(out.path(), 42);
    assert_eq!(first.path(), out.path().join("pool/20261121T061500Z-42"));
    let second = filled(out.path(), 42);
    let third = filled(out.path(), 42);
    assert!(second.path().ends_with("20261121T061500Z-42-2"));
    assert!(third.path().ends_with("20261121T061500Z-42-3"));
}

#[test]
fn a_name_cannot_lead_elsewhere() {
    for (name, safe) in [
        ("gc-pause", "gc-pause"),
        ("../x", "-.-x"),
        ("..", "-."),
        ("a/b\0c", "a-b-c"),
        ("", "unnamed"),
        ("锁", "锁"),
    ] {
        assert_eq!(file_name(name), safe);
    }
}

#[test]
fn what_is_written_is_there_and_readable_by_others() {
    let out = tempfile::tempdir().unwrap();
    let run = filled(out.path(), 1);
    run.write_by_path("b.png", |path| {
        assert_eq!(path.extension().unwrap(), "png");
        fs::write(path, b"b")
    })
    .unwrap();
    assert_eq!(names(run.path()), ["a.txt", "b.png"]);
    assert_eq!(fs::read(run.path().join("b.png")).unwrap(), b"b");
    let ordinary = out.path().join("ordinary");
    fs::write(&ordinary, b"").unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode();
    assert_eq!(mode(&run.path().join("a.txt")), mode(&ordinary));
}

#[test]
fn a_write_that_fails_leaves_what_was_there() {
    let out = tempfile::tempdir().unwrap();
    let run = filled(out.path(), 1);
    let fail = |w: &mut dyn Write| {
        w.write_all(&[b'x'; 100_000])?;
        Err(io::Error::from(io::ErrorKind::StorageFull))
    };
    for name in ["a.txt", "b.txt"] {
        let error = run.write(name, fail).unwrap_err().to_string();
        let path = run.path().join(name).display().to_string();
        assert!(error.contains(&path) && error.contains("--out"), "{error}");
    }
    assert_eq!(names(run.path()), ["a.txt"]);
    assert_eq!(fs::read(run.path().join("a.txt")).unwrap(), b"a");
}

/// `/dev/full` takes nothing; it stands for a disk without room.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told_of_even_where_it_shows_late() {
    let out = tempfile::tempdir().unwrap();
    let run = RunDirectory::create(out.path(), "pool", STAMP, 1).unwrap();
    let fill = |_: &mut dyn Write| {
        let mut full = BufWriter::new(File::options().write(true).open("/dev/full")?);
        full.write_all(b"small enough for the buffer")?;
        full.flush()
    };
    assert!(matches!(run.write("a", fill), Err(WriteError::Write(..))));
    assert_eq!(names(run.path()), [""; 0]);
}

#[test]
fn an_empty_run_directory_is_removed_again() {
    let out = tempfile::tempdir().unwrap();
    let place = out.path().join("new/er");
    drop(RunDirectory::create(&place, "pool", STAMP, 1).unwrap());
    assert_eq!(names(out.path()), [""; 0]);
    drop(filled(&place, 1));
    assert_eq!(names(&place.join("pool")), ["20261121T061500Z-1"]);
    drop(RunDirectory::create(&place, "pool", STAMP, 2).unwrap());
    assert_eq!(names(&place.join("pool")), ["20261121T061500Z-1"]);
}

#[test]
fn a_place_that_is_a_file_is_refused_with_advice() {
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("file");
    fs::write(&file, b"").unwrap();
    let error = RunDirectory::create(&file, "pool", STAMP, 1).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("cannot make the run directory "), "{text}");
    assert!(text.ends_with("; choose another place with --out"), "{text}");
    assert_eq!(names(out.path()), ["file"]);
}

#[test]
fn latest_leads_to_the_last_run() {
    let out = tempfile::tempdir().unwrap();
    let link = out.path().join("pool/latest");
    for seed in [1, 2] {
        assert_eq!(filled(out.path(), seed).finish().unwrap(), Latest::Set(link.clone()));
        let target = fs::read_link(&link).unwrap();
        assert_eq!(target, Path::new(&format!("20261121T061500Z-{seed}")));
        assert_eq!(fs::read(link.join("a.txt")).unwrap(), b"a");
    }
    assert_eq!(names(&out.path().join("pool")).len(), 3);
}

#[test]
fn a_dangling_link_is_replaced() {
    let out = tempfile::tempdir().unwrap();
    let run = filled(out.path(), 1);
    let link = out.path().join("pool/latest");
    symlink("gone", &link).unwrap();
    assert_eq!(run.finish().unwrap(), Latest::Set(link));
}

#[test]
fn somebodys_link_is_left_alone() {
    for target in ["/etc/passwd", "../elsewhere", "../pool/20261121T061500Z-1", ".", "notes.txt"] {
        let out = tempfile::tempdir().unwrap();
        let run = filled(out.path(), 1);
        fs::write(out.path().join("pool/notes.txt"), b"mine").unwrap();
        let link = out.path().join("pool/latest");
        symlink(target, &link).unwrap();
        assert_eq!(run.finish().unwrap(), Latest::Taken(link.clone()), "{target}");
        assert_eq!(fs::read_link(&link).unwrap(), Path::new(target));
    }
}

#[test]
fn somebodys_file_or_directory_is_left_alone() {
    for is_dir in [false, true] {
        let out = tempfile::tempdir().unwrap();
        let run = filled(out.path(), 1);
        let link = out.path().join("pool/latest");
        if is_dir { fs::create_dir(&link) } else { fs::write(&link, b"mine") }.unwrap();
        assert_eq!(run.finish().unwrap(), Latest::Taken(link.clone()));
        assert!(!link.symlink_metadata().unwrap().file_type().is_symlink());
        assert_eq!(names(&out.path().join("pool")), ["20261121T061500Z-1", "latest"]);
    }
}
