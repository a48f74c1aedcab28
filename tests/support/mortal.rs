//! A host that dies and comes back at the same address, for tests of what that costs. It runs below the test, so that
//! the test knows what it had read.

use std::io::ErrorKind;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What it does with a connection: it notes what it reads, and says nothing more once it is dead.
pub type Serve = fn(TcpStream, &Mutex<Vec<String>>, &AtomicBool);

/// A host that is killed and started again: the listening socket and every connection go at once.
pub struct Mortal {
    pub address: SocketAddr,
    dead: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
    gone: thread::JoinHandle<()>,
}

impl Mortal {
    pub fn start(port: u16, seen: &Arc<Mutex<Vec<String>>>, serve: Serve) -> Self {
        let listener = loop {
            match TcpListener::bind(("127.0.0.1", port)) {
                Ok(listener) => break listener,
                Err(error) if error.kind() == ErrorKind::AddrInUse => thread::sleep(Duration::from_millis(5)),
                Err(error) => panic!("{error}"),
            }
        };
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let (dead, open) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (is_dead, connections, notes) = (dead.clone(), open.clone(), seen.clone());
        let gone = thread::spawn(move || {
            loop {
                match listener.accept() {
                    Ok((stream, _)) => {
                        stream.set_nonblocking(false).unwrap();
                        connections.lock().unwrap().push(stream.try_clone().unwrap());
                        let (notes, is_dead) = (notes.clone(), is_dead.clone());
                        thread::spawn(move || serve(stream, &notes, &is_dead));
                    }
                    // Nobody waits to be let in: nothing is lost by closing the door.
                    Err(_) if is_dead.load(Ordering::SeqCst) => return,
                    Err(_) => thread::sleep(Duration::from_micros(200)),
                }
            }
        });
        Self { address, dead, open, gone }
    }

    /// Both ways: as a process that is killed. Writing only: it reads on until the proxy closes, so that what was
    /// under way is known.
    pub fn kill(self, how: Shutdown) {
        self.dead.store(true, Ordering::SeqCst);
        self.gone.join().unwrap();
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(how);
        }
    }
}
