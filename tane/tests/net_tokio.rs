//! The promise that tokio runs on a kernel's sockets, by the stream that docs/net.md tells of.

mod inside;
mod wired;

use inside::default_kernel;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::task::{ready, Context, Poll};
use std::time::Duration;
use tane::net::{Socket, TcpListener, TcpStream, Watched};
use tane::Kernel;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::io::{BufReader, Interest, ReadBuf};
use wired::{pattern, LONG};

/// What tokio waits for.
fn registered<S: AsRef<Socket>>(socket: S) -> io::Result<AsyncFd<Watched<S>>> {
    let watched = Watched::new(socket)?;
    // SAFETY: its descriptor is the same as long as it exists.
    Ok(unsafe { AsyncFd::register(watched) }?)
}

/// A kernel's connection as tokio has the host's.
struct Stream(AsyncFd<Watched<TcpStream>>);

impl Stream {
    fn new(stream: TcpStream) -> io::Result<Self> {
        registered(stream).map(Self)
    }

    /// Without holding up other tasks: who begins to connect is told later.
    async fn connect(kernel: &Kernel, to: SocketAddr) -> io::Result<Self> {
        let kernel = kernel.clone();
        let connect = move || TcpStream::connect(&kernel, to);
        let stream = tokio::task::spawn_blocking(connect)
            .await
            .expect("it connects");
        Self::new(stream?)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.0.poll_read_ready(context))?;
            let room = to.initialize_unfilled();
            if let Ok(result) = guard.try_io(|fd| (&**fd.get_ref()).read(room)) {
                return Poll::Ready(result.map(|n| to.advance(n)));
            }
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.0.poll_write_ready(context))?;
            if let Ok(result) = guard.try_io(|fd| (&**fd.get_ref()).write(from)) {
                return Poll::Ready(result);
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.get_ref().shutdown(Shutdown::Write))
    }
}

/// Serve all who come, each as a task.
async fn serve(listener: TcpListener) -> io::Result<()> {
    let listener = registered(listener)?;
    loop {
        let accept = |listener: &Watched<TcpListener>| listener.accept();
        let (stream, _) = listener.async_io(Interest::READABLE, accept).await?;
        tokio::spawn(async move {
            let mut stream = Stream::new(stream).expect("a stream");
            let (mut read, mut write) = tokio::io::split(&mut stream);
            tokio::io::copy(&mut read, &mut write)
                .await
                .expect("an echo");
            write.shutdown().await.expect("an end");
        });
    }
}

fn run(work: impl std::future::Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(LONG, work).await.expect("in time") });
}

#[test]
fn tokio_serves_many_connections_of_a_kernel_with_few_threads() {
    let Some(kernel) = default_kernel() else {
        return;
    };
    kernel.link("lo").unwrap().set_up().unwrap();
    let listener = TcpListener::bind(&kernel, "127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    run(async {
        let server = tokio::spawn(serve(listener));
        let mut clients = tokio::task::JoinSet::new();
        for number in 0..50usize {
            let kernel = kernel.clone();
            clients.spawn(async move {
                let stream = Stream::connect(&kernel, address)
                    .await
                    .expect("a connection");
                let (mut read, mut write) = tokio::io::split(stream);
                let data = pattern(100_000 + number * 1_000);
                let sent = data.clone();
                let writer = tokio::spawn(async move {
                    write.write_all(&sent).await.expect("bytes to send");
                    write.shutdown().await.expect("an end");
                });
                let mut back = Vec::new();
                read.read_to_end(&mut back)
                    .await
                    .expect("bytes that come back");
                writer.await.unwrap();
                assert!(back == data, "bytes have changed");
            });
        }
        while let Some(client) = clients.join_next().await {
            client.unwrap();
        }
        server.abort();
    });
}

#[test]
fn tasks_that_wait_for_a_kernel_are_given_up_in_time_and_go_on_between_two_kernels() {
    let Some(two) = wired::two([&Default::default(); 2]) else {
        return;
    };
    let [here, there] = &two.kernels;
    let (listener, address) = wired::listen(there, wired::v6().there);
    run(async {
        let server = tokio::spawn(serve(listener));
        let mut stream = BufReader::new(Stream::connect(here, address).await.unwrap());
        let mut line = String::new();
        let waiting = tokio::time::timeout(Duration::from_millis(50), stream.read_line(&mut line));
        assert!(waiting.await.is_err(), "nobody has sent anything");
        stream.write_all(b"after that\n").await.unwrap();
        stream.read_line(&mut line).await.unwrap();
        assert_eq!(line, "after that\n");
        server.abort();
    });
}
