//! The verbs of clients. Each member N has one client, N, that connects to it.
//!
//! | verb | what it does |
//! |---|---|
//! | `connect N [M]` | client N connects to member N (or M), with its session if it has one |
//! | `create N PATH [DATA]`, `ephemeral N PATH`, `set N PATH DATA`, `delete N PATH`, `get N PATH [watch]`, `sync N`, `close N` | asks and waits for the answer |
//! | `propose N PATH [COUNT]` | asks for creates and does not wait |
//! | `many-ephemerals N PREFIX COUNT LENGTH` | creates COUNT ephemerals with long names |
//! | `hang-up N` | ends client N's connection; its session lives on |
//! | `silence N MS` | client N does not even ping |

use std::sync::Arc;

use bytes::Bytes;
use zk_jute::OpCode;
use zk_jute::records::Acl;
use zk_jute::request::{CreateRequest, Request};

use super::stage::Stage;
use super::verbs::{member, number};
use crate::client::Link;
use crate::clock::MS;
use crate::history::Outcome;

impl Stage {
    pub(super) fn client_verb(&mut self, verb: &str, words: &[&str]) -> Result<(), String> {
        let id = member(words.first())?;
        let client = usize::try_from(id - 1).map_err(|_| "which client?")?;
        let path = || -> Result<Arc<str>, String> { Ok((*words.get(1).ok_or("which path?")?).into()) };
        let data = || Some(Bytes::copy_from_slice(words.get(2).copied().unwrap_or_default().as_bytes()));
        let request = match verb {
            "connect" => return self.connect(client, words.get(1).map_or(Ok(id), |word| member(Some(word)))?),
            "hang-up" => {
                self.world()?.client_hangs_up(client);
                return Ok(());
            }
            "silence" => {
                let world = self.world()?;
                world.clients[client].stalled_until = world.now() + number(words.get(1))? * MS;
                return Ok(());
            }
            "propose" => return self.propose(client, id, &path()?, words.get(2).map_or(Ok(1), |word| number(Some(word)))?),
            "many-ephemerals" => return self.many_ephemerals(client, id, words),
            "create" => create(path()?, data(), 0),
            "ephemeral" => create(path()?, data(), 1),
            "set" => Request::SetData { path: path()?, data: data(), version: -1 },
            "delete" => Request::Delete { path: path()?, version: -1 },
            "get" => Request::GetData { path: path()?, watch: words.get(2) == Some(&"watch") },
            "sync" => Request::Sync { path: "/".into() },
            "close" => Request::CloseSession,
            _ => return Err(format!("nobody knows {verb}")),
        };
        self.connected(client, id)?;
        self.ask(client, request)
    }

    fn connect(&mut self, client: usize, node: i64) -> Result<(), String> {
        let world = self.world()?;
        if world.clients[client].link != Link::Down {
            world.client_hangs_up(client);
        }
        world.client_connects(client, Some(node));
        self.wait("the session", |world| world.clients[client].link != Link::Connecting)
    }

    fn connected(&mut self, client: usize, node: i64) -> Result<(), String> {
        if self.world()?.clients[client].link == Link::Up {
            return Ok(());
        }
        self.connect(client, node)?;
        match self.world()?.clients[client].link {
            Link::Up => Ok(()),
            Link::Down | Link::Connecting => Err(format!("{node} takes no client")),
        }
    }

    fn ask(&mut self, client: usize, request: Request) -> Result<(), String> {
        let world = self.world()?;
        let number = world.history.operations().len();
        world.client_requests(client, request);
        self.wait("the answer", |world| {
            world.history.operations().get(number).is_some_and(|operation| operation.outcome != Outcome::Open)
        })
    }

    fn propose(&mut self, client: usize, node: i64, path: &str, count: u64) -> Result<(), String> {
        self.connected(client, node)?;
        let world = self.world()?;
        for number in 1..=count {
            let path = if count == 1 { path.to_owned() } else { format!("{path}{number}") };
            world.client_requests(client, create(path.into(), Some(Bytes::new()), 0));
        }
        Ok(())
    }

    fn many_ephemerals(&mut self, client: usize, node: i64, words: &[&str]) -> Result<(), String> {
        self.connected(client, node)?;
        let prefix = words.get(1).ok_or("which prefix?")?;
        let (count, length) = (number(words.get(2))?, number(words.get(3))? as usize);
        let quiet = self.world()?.transcript.replace(Vec::new());
        for number in 0..count {
            let name = format!("{prefix}{number:0length$}");
            self.ask(client, create(name.into(), None, 1))?;
        }
        self.world()?.transcript = quiet;
        Ok(())
    }
}

fn create(path: Arc<str>, data: Option<Bytes>, flags: i32) -> Request {
    Request::Create(CreateRequest { op: OpCode::Create, path, data, acl: Some(vec![Acl::open()]), flags, ttl: 0 })
}
