//! Who we are and who is at the other end of a socket.

use std::io;
use std::os::fd::AsFd;

/// The effective user id of this process.
pub fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The user id of the process that connected to (or listens at the other end of) a Unix socket. (R-Q-03)
///
/// # Errors
/// What the system said; a descriptor that is no Unix socket is an error.
pub fn peer_uid(socket: &impl AsFd) -> io::Result<u32> {
    Ok(peer(socket)?.uid)
}

/// What the kernel says about the other end of a Unix socket, as of the moment it connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its user id.
    pub uid: u32,
    /// Its process id, where the system tells it.
    pub pid: Option<u32>,
}

/// The other end of a Unix socket.
///
/// Not through `rustix`: its process ids are never zero, and the kernel says zero for a process of
/// another pid namespace (a core in a container, say).
///
/// # Errors
/// What the system said.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub fn peer(socket: &impl AsFd) -> io::Result<Peer> {
    use std::os::fd::AsRawFd;
    let mut credentials = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let size = size_of::<libc::ucred>();
    let mut length = libc::socklen_t::try_from(size).unwrap_or_default();
    // SAFETY: the descriptor is open for the whole call; both pointers are valid for writing and the length is
    // that of what the first one points to.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Peer {
        uid: credentials.uid,
        pid: u32::try_from(credentials.pid).ok().filter(|pid| *pid != 0),
    })
}

/// The other end of a Unix socket. Without its process id on this system.
///
/// # Errors
/// What the system said.
#[cfg(not(target_os = "linux"))]
#[allow(unsafe_code)]
pub fn peer(socket: &impl AsFd) -> io::Result<Peer> {
    use std::os::fd::AsRawFd;
    let (mut uid, mut gid) = (0, 0);
    // SAFETY: the descriptor is open for the whole call and both pointers are valid for writing.
    let result = unsafe { libc::getpeereid(socket.as_fd().as_raw_fd(), &mut uid, &mut gid) };
    if result == 0 {
        Ok(Peer { uid, pid: None })
    } else {
        Err(io::Error::last_os_error())
    }
}
