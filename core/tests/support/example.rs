// A private redis-server for an example of the documentation; it ends with the example.
struct ExampleServer {
    child: std::process::Child,
    dir: tempfile::TempDir,
    port: u16,
}

impl ExampleServer {
    fn start() -> Self {
        let free = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
        let port = free.local_addr().expect("it has a number").port();
        drop(free);
        let dir = tempfile::tempdir().expect("a directory can be made");
        let child = std::process::Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
            .arg(dir.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("redis-server is on the PATH (apt-get install redis-server)");
        let mut server = Self { child, dir, port };
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(server.child.try_wait().expect("it is our own").is_none(), "it has ended");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        server
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }
}

impl Drop for ExampleServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.dir.path();
    }
}
