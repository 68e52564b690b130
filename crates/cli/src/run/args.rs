//! The arguments of `crawlgate run`, and the changes of the configuration that they ask for.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::inherited;
use super::summary::Exemption;
use crate::client::token;
use crate::{ExtraDestinations, Failure, terminal};
use crawlgate_config::{ClientConfig, Conditions, Config, Mode, PortRange};
use crawlgate_gate::explain::usage;
use crawlgate_robots::ProductToken;

/// Arguments of `crawlgate run`.
#[derive(Args, Clone, Debug)]
pub struct RunArgs {
    /// No summary for people at the end
    #[arg(long, short)]
    pub(super) quiet: bool,
    #[command(flatten)]
    pub(super) reach: ExtraDestinations,
    /// Deny nothing: record and sum up the denials that would have happened
    #[arg(long)]
    pub(super) report: bool,
    /// Crawl as this [[client]] of the configuration, without its conditions: with its product tokens, mode, profile,
    /// pace and quota. Default: as no configured client
    #[arg(long, value_name = "NAME")]
    pub(super) client: Option<String>,
    /// Judge all requests of the command as this product token, whatever their User-Agent says, as [agent] product_tokens in
    /// the configuration; may be repeated, most specific first. The User-Agent itself stays as the command sends it
    #[arg(long, value_name = "TOKEN", value_parser = token)]
    pub(super) agent: Vec<ProductToken>,
    /// Purpose that the content is for: search, train-ai, ai-input, tdm or other; several are a list with commas. A use that
    /// a site disallows is refused. Default: as the configuration says
    #[arg(long, value_name = "PURPOSE")]
    pub(super) purpose: Vec<String>,
    /// Ask each origin for its robots.txt before its first request, even if the store has a fresh copy
    #[arg(long)]
    pub(super) fresh: bool,
    /// Let the command connect to the proxy and nowhere else; =net gives it a network of its own (browsers)
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "tcp",
        long_help = CONFINE_HELP
    )]
    pub(super) confine: Option<Confine>,
    /// Exit 3 if the command succeeds but sent no request through the proxy
    #[arg(long)]
    pub(super) require_traffic: bool,
    /// Exit 4 if the command succeeds but a request was denied
    #[arg(long)]
    pub(super) fail_on_denied: bool,
    /// Write the summary as JSON: `json` writes it to standard error, in place of the summary for people; any other word is
    /// a file, which is replaced
    #[arg(long, value_name = "json|FILE")]
    pub(super) summary: Option<PathBuf>,
    /// The command and its arguments; `{proxy}`, `{ca}` and `{spki}` in them are replaced
    #[arg(
        required = true,
        trailing_var_arg = true,
        value_name = "COMMAND",
        long_help = COMMAND_HELP
    )]
    pub(super) command: Vec<OsString>,
}

/// The means by which the kernel keeps the command from bypassing the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Confine {
    /// TCP connections lead to the proxy's port alone (Landlock), and there are no others (seccomp)
    Tcp,
    /// A network of its own, with the proxy inside and nothing else (user and network namespace)
    Net,
}

const CONFINE_HELP: &str = "\
Let the command, and all that it starts, connect to the proxy and nowhere else. The kernel enforces it, without \
privileges; if it refuses, the command is not started.

--confine (=tcp) allows TCP connections to the proxy's port alone: Linux 6.7 or newer with Landlock. UDP, and with it \
DNS and QUIC, is closed. Local servers of the command's own cannot be connected to either.

--confine=net gives the command a network of its own, with the proxy inside and nothing else: UDP leads nowhere, and \
local servers that the command starts work, as browsers and their drivers require. It needs user namespaces.";

const COMMAND_HELP: &str = "\
The command and its arguments; `{proxy}`, `{ca}` and `{spki}` in them are replaced

crawlgate sets the variables that make common clients use the proxy and trust its CA. Programs without such \
variables take placeholders: {proxy} is the proxy's URL, {ca} the file of the CA's certificate, {spki} the hash of its \
key. For example:

  crawlgate run -- chromium --headless --user-data-dir=/tmp/crawl
    --proxy-server={proxy}
    --ignore-certificate-errors-spki-list={spki} --dump-dom URL

The store keeps denials, also beside a running proxy, and so does the decision log if there is one; \
if another process holds that log, the run writes one of its own. The summary names the place.";

impl RunArgs {
    /// Changes the configuration for the command. Returns the exemption that its client loses.
    ///
    /// # Errors
    /// When there is no such client, a purpose is unknown, or the environment names a proxy that cannot be used.
    pub(super) fn put_in(&self, config: &mut Config) -> Result<Option<Exemption>, Failure> {
        self.reach.add_to(config);
        let exemption = crawl_as(self.client.as_deref(), &mut config.clients)?;
        let routes = &mut config.upstream.routes;
        if let Some(said) = inherited::adopt(routes, |name| std::env::var(name).ok())? {
            terminal::tell(said);
        }
        open_connect_ports(config);
        // The evidence of one command: whatever it is denied has a record.
        config.audit.refusals_per_minute = None;
        // Standard output is the command's.
        config.log.stdout = false;
        if !self.agent.is_empty() {
            config.agent.product_tokens.clone_from(&self.agent);
        }
        if !self.purpose.is_empty() {
            let purposes = usage::purposes(&self.purpose);
            config.policy.purposes = purposes.map_err(|error| format!("--purpose: {error}"))?;
        }
        if self.report {
            config.policy.mode = Mode::Report;
        }
        for client in &mut config.clients {
            if !self.agent.is_empty() {
                client.product_tokens.clear();
            }
            if !self.purpose.is_empty() {
                client.purposes = None;
            }
            if self.report {
                client.mode = None;
            }
        }
        Ok(exemption)
    }
}

/// Lets CONNECT lead to any port, unless the configuration changes the default ports. A plain request leads to any
/// port; some clients send it in a tunnel (`node.cjs`), where it is judged the same.
fn open_connect_ports(config: &mut Config) {
    let ports = &mut config.egress.connect_ports;
    if *ports == Config::default().egress.connect_ports {
        *ports = vec![PortRange::EVERY];
    }
}

/// Keeps only the client that the command crawls as: no other process reaches its proxy, so it needs no credentials.
/// Returns the exemption that it loses.
fn crawl_as(
    name: Option<&str>,
    clients: &mut Vec<ClientConfig>,
) -> Result<Option<Exemption>, Failure> {
    let Some(name) = name else {
        clients.clear();
        return Ok(None);
    };
    let names = clients.iter().map(|client| &client.name);
    let names = terminal::joined(names, ", ", "none");
    clients.retain(|client| *client.name == *name);
    let [client] = clients.as_mut_slice() else {
        bail!("--client {name}: no [[client]] has this name; there are: {names}");
    };
    client.conditions = Conditions::default();
    // The proof went with the conditions: every process of this machine may reach the proxy of a run.
    let reason = client.exempt.take();
    Ok(reason
        .map(|reason| Exemption { client: client.name.to_string(), reason: reason.to_string() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connect_leads_to_any_port_unless_the_configuration_names_some() {
        let mut config = Config::default();
        open_connect_ports(&mut config);
        assert_eq!(config.egress.connect_ports, [PortRange::EVERY]);
        config.egress.connect_ports = vec![PortRange::one(443)];
        open_connect_ports(&mut config);
        assert_eq!(config.egress.connect_ports, [PortRange::one(443)]);
    }
}
