//! The shim: a SQLite VFS that passes everything on to the one of the system, and tells of the files of watched folders.
//!
//! A watched file is SQLite's `sqlite3_file` with our methods, and behind it in the same memory the file of the system's VFS,
//! which does the work.

use super::{Calls, Event, Folder, watched_file};
use rusqlite::ffi;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// A watched file, as SQLite holds it. The file of the system's VFS follows it.
#[repr(C)]
struct File {
    base: ffi::sqlite3_file,
    watched: *mut Watched,
}

/// Which file it is.
struct Watched {
    folder: Arc<Folder>,
    name: String,
    /// Whether the first sync is to come that syncs the folder as well: the system's VFS does that for a new journal or log.
    syncs_folder: AtomicBool,
}

/// The VFS of the system. It is never unregistered, and its functions may be called by any thread.
struct System(*mut ffi::sqlite3_vfs);

// SAFETY: SQLite calls a VFS from all threads; the structure is only read.
unsafe impl Send for System {}
// SAFETY: as above.
unsafe impl Sync for System {}

/// Files of these kinds.
const JOURNALS: c_int = ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_WAL;

static SYSTEM: OnceLock<System> = OnceLock::new();

/// Makes the shim the default VFS of this process, for files that are opened from now on.
pub(super) fn install() {
    SYSTEM.get_or_init(|| {
        // SAFETY: SQLite initialises itself here, and returns its default VFS.
        let system = unsafe { ffi::sqlite3_vfs_find(ptr::null()) };
        assert!(!system.is_null(), "SQLite has a VFS");
        // SAFETY: it points to a VFS that is never freed.
        let mut shim = unsafe { *system };
        shim.szOsFile += size_of::<File>() as c_int;
        shim.pNext = ptr::null_mut();
        shim.zName = c"watched".as_ptr();
        shim.xOpen = Some(open);
        shim.xDelete = Some(delete);
        // SAFETY: it is leaked, because a VFS must live as long as the process.
        let code = unsafe { ffi::sqlite3_vfs_register(Box::into_raw(Box::new(shim)), 1) };
        assert_eq!(code, ffi::SQLITE_OK);
        System(system)
    });
}

fn system() -> *mut ffi::sqlite3_vfs {
    SYSTEM.get().expect("SQLite knows the shim only once it is installed").0
}

/// The path of a file that SQLite names.
///
/// # Safety
/// `name` is null or a C string that outlives the result.
unsafe fn path<'n>(name: *const c_char) -> Option<&'n Path> {
    // SAFETY: the caller's.
    (!name.is_null()).then(|| Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes())))
}

/// The file of the system's VFS in a watched file.
///
/// # Safety
/// `file` is a watched file.
unsafe fn real(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    // SAFETY: SQLite allocated `szOsFile` bytes, which are this and the system's.
    unsafe { file.cast::<File>().add(1).cast() }
}

/// Which file it is.
///
/// # Safety
/// `file` is a watched file that is open.
unsafe fn watched<'f>(file: *mut ffi::sqlite3_file) -> &'f Watched {
    // SAFETY: `open` put it there, and `close` takes it away.
    unsafe { &*(*file.cast::<File>()).watched }
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives what the system's function wants.
    let open_real =
        |file| unsafe { ((*system()).xOpen.expect("a VFS opens files"))(system(), name, file, flags, flags_out) };
    // SAFETY: SQLite gives a string or null.
    let Some((folder, name)) = unsafe { path(name) }.and_then(watched_file) else { return open_real(file) };
    let is_new = !folder.path.join(&name).exists();
    // SAFETY: SQLite gives memory for a watched file. Without methods, it does not close it after a failure.
    let real = unsafe {
        (*file).pMethods = ptr::null();
        real(file)
    };
    let code = match is_new {
        true => folder.act(None, || Event::Created(name.clone()), || open_real(real)),
        false => open_real(real),
    };
    if code == ffi::SQLITE_OK {
        // SAFETY: as above.
        unsafe {
            let syncs_folder = AtomicBool::new(flags & ffi::SQLITE_OPEN_CREATE != 0 && flags & JOURNALS != 0);
            (*file.cast::<File>()).watched = Box::into_raw(Box::new(Watched { folder, name, syncs_folder }));
            (*file).pMethods = &METHODS;
        }
    }
    code
}

unsafe extern "C" fn delete(_: *mut ffi::sqlite3_vfs, name: *const c_char, sync_folder: c_int) -> c_int {
    // SAFETY: SQLite gives what the system's function wants.
    let delete_real = || unsafe { ((*system()).xDelete.expect("a VFS deletes files"))(system(), name, sync_folder) };
    // SAFETY: SQLite gives a string.
    match unsafe { path(name) }.and_then(watched_file) {
        None => delete_real(),
        Some((folder, name)) => folder.act(None, || Event::Deleted { name, synced: sync_folder != 0 }, delete_real),
    }
}

/// The system's method, called with the system's file.
macro_rules! pass_on {
    ($file:expr, $method:ident $(, $arg:expr)*) => {{
        // SAFETY: SQLite calls the methods of open files only, with what they want.
        unsafe {
            let real = real($file);
            ((*(*real).pMethods).$method.expect("the system's VFS has all methods"))(real $(, $arg)*)
        }
    }};
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    let code = pass_on!(file, xClose);
    // SAFETY: `open` put it there, and nobody uses a file that is closed.
    drop(unsafe { Box::from_raw((*file.cast::<File>()).watched) });
    code
}

unsafe extern "C" fn read(file: *mut ffi::sqlite3_file, into: *mut c_void, count: c_int, offset: i64) -> c_int {
    pass_on!(file, xRead, into, count, offset)
}

unsafe extern "C" fn write(file: *mut ffi::sqlite3_file, from: *const c_void, count: c_int, offset: i64) -> c_int {
    // SAFETY: the file is open, and SQLite gives so many bytes.
    let (watched, bytes) = unsafe { (watched(file), std::slice::from_raw_parts(from.cast::<u8>(), count as usize)) };
    let name = || watched.name.clone();
    let event = || Event::Written { name: name(), offset: offset as u64, bytes: bytes.to_vec() };
    watched.folder.act(Some(Calls::Writes), event, || pass_on!(file, xWrite, from, count, offset))
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, length: i64) -> c_int {
    // SAFETY: the file is open.
    let watched = unsafe { watched(file) };
    let event = || Event::Cut { name: watched.name.clone(), length: length as u64 };
    watched.folder.act(None, event, || pass_on!(file, xTruncate, length))
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: the file is open.
    let watched = unsafe { watched(file) };
    let with_folder = watched.syncs_folder.load(Ordering::Relaxed);
    let event = || {
        watched.syncs_folder.store(false, Ordering::Relaxed);
        Event::Synced { name: watched.name.clone(), with_folder }
    };
    watched.folder.act(Some(Calls::Syncs), event, || pass_on!(file, xSync, flags))
}

unsafe extern "C" fn size(file: *mut ffi::sqlite3_file, size: *mut i64) -> c_int {
    pass_on!(file, xFileSize, size)
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    pass_on!(file, xLock, level)
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    pass_on!(file, xUnlock, level)
}

unsafe extern "C" fn check_reserved_lock(file: *mut ffi::sqlite3_file, is_held: *mut c_int) -> c_int {
    pass_on!(file, xCheckReservedLock, is_held)
}

unsafe extern "C" fn control(file: *mut ffi::sqlite3_file, operation: c_int, with: *mut c_void) -> c_int {
    pass_on!(file, xFileControl, operation, with)
}

unsafe extern "C" fn sector_size(file: *mut ffi::sqlite3_file) -> c_int {
    pass_on!(file, xSectorSize)
}

unsafe extern "C" fn characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    pass_on!(file, xDeviceCharacteristics)
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    page: c_int,
    bytes: c_int,
    extend: c_int,
    memory: *mut *mut c_void,
) -> c_int {
    pass_on!(file, xShmMap, page, bytes, extend, memory)
}

unsafe extern "C" fn shm_lock(file: *mut ffi::sqlite3_file, offset: c_int, count: c_int, flags: c_int) -> c_int {
    pass_on!(file, xShmLock, offset, count, flags)
}

unsafe extern "C" fn shm_barrier(file: *mut ffi::sqlite3_file) {
    pass_on!(file, xShmBarrier);
}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, delete: c_int) -> c_int {
    pass_on!(file, xShmUnmap, delete)
}

/// Version 2: without memory-mapped reading, which the host turns off.
static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};
