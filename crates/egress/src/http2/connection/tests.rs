use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, DuplexStream, duplex};
use tokio::time::Instant;

use super::*;

/// An end of a connection on which an origin permits so many streams.
pub(in super::super::super) fn origin(most: u32) -> DuplexStream {
    let (ours, theirs) = duplex(64 * 1024);
    tokio::spawn(async move {
        let mut builder = h2::server::Builder::new();
        builder.max_concurrent_streams(most);
        let mut server = builder.handshake::<_, Bytes>(theirs).await?;
        while server.accept().await.is_some() {}
        Ok::<_, h2::Error>(())
    });
    ours
}

/// Connects to the other end of this one.
pub(in super::super::super) async fn connect(
    io: DuplexStream,
    changed: &Arc<Notify>,
) -> Connection {
    let bounds = Bounds { streams: 100, window: 65_535 };
    let peer = ([192, 0, 2, 1], 443).into();
    let authority = Authority::from_static("a.example");
    Connection::handshake(io, (peer, authority), bounds, Arc::clone(changed), ())
        .await
        .expect("nothing is exchanged yet")
}

/// Waits for a change until `is_so`.
pub(in super::super::super) async fn until(changed: &Notify, is_so: impl Fn() -> bool) {
    loop {
        let next = changed.notified();
        if is_so() {
            return;
        }
        next.await;
    }
}

#[tokio::test]
async fn the_number_of_streams_is_the_origins_once_it_is_known() {
    let changed = Arc::default();
    let connection = connect(origin(7), &changed).await;
    until(&changed, || connection.is_settled()).await;
    assert_eq!((connection.most_streams(), connection.is_over()), (7, false));
}

#[tokio::test]
async fn the_first_stream_waits_for_nothing() {
    let changed = Arc::default();
    let (ours, _silent) = duplex(64 * 1024);
    let connection = connect(ours, &changed).await;
    assert_eq!((connection.most_streams(), connection.is_settled()), (1, false));
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_sign_of_life_is_over() {
    let changed = Arc::default();
    let began = Instant::now();
    let (ours, _silent) = duplex(64 * 1024);
    let connection = connect(ours, &changed).await;
    until(&changed, || connection.is_over()).await;
    assert_eq!(began.elapsed(), PONG_WITHIN);
}

#[tokio::test(start_paused = true)]
async fn a_silent_connection_is_asked_for_a_sign_of_life() {
    let changed = Arc::default();
    let (ours, theirs) = duplex(64 * 1024);
    // An origin that is lost after its first PONG.
    let origin = tokio::spawn(async move {
        let mut server = h2::server::handshake(theirs).await?;
        let lives = std::future::poll_fn(|cx| server.poll_accept(cx).map(drop));
        let _ = timeout(Duration::from_secs(1), lives).await; // no request comes
        Ok::<_, h2::Error>(server)
    });
    let connection = connect(ours, &changed).await;
    until(&changed, || connection.is_settled()).await;
    let _lost = origin.await;
    let began = Instant::now();
    connection.probe();
    until(&changed, || connection.is_over()).await;
    assert_eq!(began.elapsed(), PONG_WITHIN);
}

#[tokio::test(start_paused = true)]
async fn only_a_connection_with_exchanges_is_asked_again_and_again() {
    for (is_busy, lasts) in [(true, PING_EVERY + PONG_WITHIN), (false, PING_EVERY * 100)] {
        let changed = Arc::default();
        let (ours, theirs) = duplex(64 * 1024);
        let connection = connect(ours, &changed).await;
        let mut server = h2::server::handshake(theirs).await.expect("a preface");
        {
            let mut serving = std::pin::pin!(server.accept());
            let settled = until(&changed, || connection.is_settled());
            tokio::select! {
                _ = &mut serving => panic!("no request comes"),
                () = settled => {}
            }
        }
        // From here on, the origin says nothing.
        if is_busy {
            connection.begin();
        }
        let began = Instant::now();
        let over = until(&changed, || connection.is_over());
        assert_eq!(timeout(PING_EVERY * 100, over).await.is_ok(), is_busy);
        assert_eq!(began.elapsed(), lasts);
    }
}

#[tokio::test]
async fn a_connection_that_no_request_can_use_ends() {
    let changed = Arc::default();
    let (ours, mut theirs) = duplex(64 * 1024);
    drop(connect(ours, &changed).await);
    let mut all = Vec::new();
    theirs.read_to_end(&mut all).await.expect("an end");
    assert!(all.starts_with(b"PRI * HTTP/2.0\r\n"));
}

#[test]
fn a_window_for_all_streams_has_a_limit() {
    let window = |streams, window| Bounds { streams, window }.of_connection();
    assert_eq!(window(100, 262_144), 26_214_400);
    assert_eq!(window(65_536, 64 << 20), MAX_WINDOW);
}
