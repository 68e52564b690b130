use hyper_util::rt::TokioIo;
use tokio::io::{DuplexStream, duplex};

use super::super::http1;
use super::*;
use crawlgate_robots::Origin;

const IDLE: Duration = Duration::from_secs(90);

fn pool() -> (Arc<Pool>, Key) {
    let clock = Clock::manual(Moment::from_millis(1_000_000));
    let pool = Pool::new(8, Arc::new(IdleBudget::new(10)), IDLE, clock);
    let (origin, _) = Origin::parse("https://a.example/").expect("a URL");
    (pool, Key::new(&origin, None))
}

/// Makes a connection that can take a request, and returns the end of its origin.
async fn connect() -> (Connection, DuplexStream) {
    let (ours, theirs) = duplex(1024);
    let connecting = http1::handshake(TokioIo::new(ours)).await;
    let (mut sender, head, connection) = connecting.expect("nothing is exchanged yet");
    let task = tokio::spawn(async move { drop(connection.await) });
    sender.ready().await.expect("it is open");
    let peer = ([192, 0, 2, 1], 443).into();
    let connection = Connection::new((sender, head), peer, task.abort_handle(), Arc::default());
    (connection, theirs)
}

#[tokio::test]
async fn a_connection_comes_back_unless_the_pool_was_emptied_since_it_was_dialled() {
    for is_emptied in [false, true] {
        let (pool, key) = pool();
        let dialled = pool.generation();
        if is_emptied {
            pool.empty();
        }
        let (connection, _origin) = connect().await;
        let lease = pool.lease(key.clone(), connection, Sharing::Pooled, dialled);
        lease.give_back();
        let taken = pool.take_for(Sharing::Pooled, &key, None);
        assert_eq!(taken.is_none(), is_emptied);
        // A connection on loan does not come back either.
        pool.empty();
        if let Some(lease) = taken {
            lease.give_back();
        }
        assert!(pool.take_for(Sharing::Pooled, &key, None).is_none());
    }
}
