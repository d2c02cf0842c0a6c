//! One line of an `hba` file as a rule; what is wrong with a line is said in PostgreSQL's words (`parse_hba_line`).

use std::net::IpAddr;

use super::address::{self, AddressRule};
use super::tokens::{Line, Token};

/// What kind of connection a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Unix-domain sockets, which this server does not have: never matches.
    Local,
    Host,
    HostSsl,
    HostNoSsl,
    /// Encryption by GSSAPI, which this server does not have: never matches.
    HostGss,
    HostNoGss,
}

impl Kind {
    const WORDS: [(&str, Self); 6] = [
        ("local", Self::Local),
        ("host", Self::Host),
        ("hostssl", Self::HostSsl),
        ("hostnossl", Self::HostNoSsl),
        ("hostgssenc", Self::HostGss),
        ("hostnogssenc", Self::HostNoGss),
    ];

    /// As the file has it.
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| word)
    }
}

/// How a client proves who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Trust,
    Reject,
    Scram,
    /// As PostgreSQL has it for users whose password is kept as a SCRAM verifier, which all are here: SCRAM.
    Md5,
    /// The client's certificate names the user.
    Cert,
}

impl Method {
    const WORDS: [(&str, Self); 5] = [
        ("trust", Self::Trust),
        ("reject", Self::Reject),
        ("scram-sha-256", Self::Scram),
        ("md5", Self::Md5),
        ("cert", Self::Cert),
    ];
    /// PostgreSQL's, and not offered here.
    const NOT_OFFERED: [&str; 9] = ["ident", "peer", "password", "gss", "sspi", "pam", "bsd", "ldap", "radius"];

    /// As the file has it.
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, method)| *method == self).map_or("", |(word, _)| word)
    }

    /// Whether the password is asked for.
    pub fn asks_password(self) -> bool {
        matches!(self, Self::Scram | Self::Md5)
    }
}

/// What is asked of the client's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCert {
    /// An authority that the server trusts has signed it.
    VerifyCa,
    /// And its common name is that of the user.
    VerifyFull,
}

/// A rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Where it begins in the file, from 1.
    pub line: u32,
    pub raw: String,
    pub kind: Kind,
    pub databases: Vec<Token>,
    pub users: Vec<Token>,
    /// Of all kinds but `local`.
    pub address: Option<AddressRule>,
    pub method: Method,
    pub client_cert: Option<ClientCert>,
}

/// Who asks to come in, and how.
#[derive(Clone, Copy)]
pub struct Client<'a> {
    pub peer: IpAddr,
    pub encrypted: bool,
    pub user: &'a str,
    pub database: &'a str,
    /// Whether the user is a member of a role.
    pub is_member: &'a dyn Fn(&str) -> bool,
}

impl Rule {
    /// Reads a line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(line: &Line) -> Result<Self, String> {
        if let Some(error) = &line.error {
            return Err(error.clone());
        }
        let mut fields = line.fields.iter();
        let kind = one(fields.next(), "end-of-line before connection type", "connection type")?;
        let kind = match Kind::WORDS.iter().find(|(word, _)| *word == kind.text) {
            Some((_, kind)) => *kind,
            None => return Err(format!("invalid connection type \"{}\"", kind.text)),
        };
        let databases = fields.next().ok_or("end-of-line before database specification")?.clone();
        let users = fields.next().ok_or("end-of-line before role specification")?.clone();
        let address = match kind {
            Kind::Local => None,
            _ => Some(read_address(&mut fields)?),
        };
        let method = one(fields.next(), "end-of-line before authentication method", "authentication type")?;
        let method = match Method::WORDS.iter().find(|(word, _)| *word == method.text) {
            Some((_, method)) => *method,
            None if Method::NOT_OFFERED.contains(&method.text.as_str()) => {
                return Err(format!("invalid authentication method \"{}\": not supported by this build", method.text));
            }
            None => return Err(format!("invalid authentication method \"{}\"", method.text)),
        };
        if method == Method::Cert && kind != Kind::HostSsl {
            return Err("cert authentication is only supported on hostssl connections".into());
        }
        let mut rule = Self {
            line: line.number,
            raw: line.raw.clone(),
            kind,
            databases,
            users,
            address,
            method,
            client_cert: None,
        };
        for option in fields.flatten() {
            match option.text.split_once('=') {
                Some((name, value)) => rule.read_option(name, value)?,
                None => return Err(format!("authentication option not in name=value format: {}", option.text)),
            }
        }
        if method == Method::Cert {
            rule.client_cert = Some(ClientCert::VerifyFull);
        }
        Ok(rule)
    }

    fn read_option(&mut self, name: &str, value: &str) -> Result<(), String> {
        let only_ssl = |rule: &Self| match rule.kind {
            Kind::HostSsl => Ok(()),
            _ => Err(format!("{name} can only be configured for \"hostssl\" rows")),
        };
        match (name, value) {
            ("clientcert", _) => {
                only_ssl(self)?;
                self.client_cert = Some(match value {
                    "verify-full" => ClientCert::VerifyFull,
                    "verify-ca" if self.method == Method::Cert => {
                        return Err(
                            "clientcert can only be set to \"verify-full\" when using \"cert\" authentication".into()
                        );
                    }
                    "verify-ca" => ClientCert::VerifyCa,
                    _ => return Err(format!("invalid value for clientcert: \"{value}\"")),
                });
                Ok(())
            }
            ("clientname", _) => {
                only_ssl(self)?;
                match value {
                    "CN" => Ok(()),
                    "DN" => Err("clientname=DN is not supported".into()),
                    _ => Err(format!("invalid value for clientname: \"{value}\"")),
                }
            }
            ("map", _) if self.method == Method::Cert => Err("authentication option \"map\" is not supported".into()),
            ("map", _) => Err("authentication option \"map\" is only valid for authentication methods ident, peer, \
                               gssapi, sspi, and cert"
                .into()),
            _ => Err(format!("unrecognized authentication option name: \"{name}\"")),
        }
    }

    /// Whether it is the rule for a client.
    pub fn matches(&self, client: &Client<'_>) -> bool {
        let kind = match self.kind {
            Kind::Local | Kind::HostGss => false,
            Kind::Host | Kind::HostNoGss => true,
            Kind::HostSsl => client.encrypted,
            Kind::HostNoSsl => !client.encrypted,
        };
        kind && self.names(client) && self.address.as_ref().is_some_and(|address| address.covers(client.peer))
    }

    /// `+role`: its members, itself among them.
    fn names(&self, client: &Client<'_>) -> bool {
        let database = self.databases.iter().any(|token| match token.text.as_str() {
            _ if token.quoted => token.text == client.database,
            "all" => true,
            "sameuser" => client.database == client.user,
            "samegroup" | "samerole" => (client.is_member)(client.database),
            "replication" => false,
            name => name == client.database,
        });
        let user = self.users.iter().any(|token| match token.text.strip_prefix('+') {
            Some(group) if !token.quoted => (client.is_member)(group),
            _ => token.is_keyword("all") || token.text == client.user,
        });
        database && user
    }

    /// The options as `pg_hba_file_rules` shows them.
    pub fn options(&self) -> Vec<String> {
        let word = |cert| if cert == ClientCert::VerifyCa { "clientcert=verify-ca" } else { "clientcert=verify-full" };
        self.client_cert.map(|cert| word(cert).to_owned()).into_iter().collect()
    }
}

/// The one token of a field.
fn one<'a>(field: Option<&'a Vec<Token>>, missing: &str, what: &str) -> Result<&'a Token, String> {
    match field.map(Vec::as_slice) {
        Some([token]) => Ok(token),
        Some(_) => Err(format!("multiple values specified for {what}")),
        None => Err(missing.to_owned()),
    }
}

fn read_address<'a>(fields: &mut impl Iterator<Item = &'a Vec<Token>>) -> Result<AddressRule, String> {
    let token = one(fields.next(), "end-of-line before IP address specification", "host address")?;
    for (word, rule) in
        [("all", AddressRule::All), ("samehost", AddressRule::SameHost), ("samenet", AddressRule::SameNet)]
    {
        if token.is_keyword(word) {
            return Ok(rule);
        }
    }
    let (text, bits) = match token.text.split_once('/') {
        Some((text, bits)) => (text, Some(bits)),
        None => (token.text.as_str(), None),
    };
    let Ok(address) = text.parse::<IpAddr>() else {
        // PostgreSQL would look the client's name up for each connection.
        return Err(format!("invalid IP address \"{text}\": host names are not supported"));
    };
    let mask = match bits {
        Some(bits) => {
            address::mask(address, bits).ok_or_else(|| format!("invalid CIDR mask in address \"{}\"", token.text))?
        }
        None => {
            let mask = one(fields.next(), "end-of-line before netmask specification", "netmask")?;
            mask.text.parse::<IpAddr>().map_err(|error| format!("invalid IP mask \"{}\": {error}", mask.text))?
        }
    };
    if address.is_ipv4() != mask.is_ipv4() {
        return Err("IP address and mask do not match".into());
    }
    Ok(AddressRule::Range { address, mask })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::tokens;
    use super::*;

    fn read(text: &str) -> Result<Rule, String> {
        Rule::read(&tokens::lines(Path::new("/no/file"), text, 0)[0])
    }

    /// PostgreSQL 15's words for each mistake, as `pg_hba_file_rules.error` has them.
    #[test]
    fn mistakes_are_told_as_postgresql_tells_them() {
        for (text, error) in [
            ("host,local all all", "multiple values specified for connection type"),
            ("hosts all all all trust", "invalid connection type \"hosts\""),
            ("host", "end-of-line before database specification"),
            ("host all", "end-of-line before role specification"),
            ("host all all", "end-of-line before IP address specification"),
            ("host all all 1.2.3.4,5.6.7.8 trust", "multiple values specified for host address"),
            ("host all all 1.2.3.4/33 trust", "invalid CIDR mask in address \"1.2.3.4/33\""),
            ("host all all 1.2.3.4", "end-of-line before netmask specification"),
            ("host all all 1.2.3.4 ::1 trust", "IP address and mask do not match"),
            ("host all all 1.2.3.4/32", "end-of-line before authentication method"),
            ("local all all trust,reject", "multiple values specified for authentication type"),
            ("local all all magic", "invalid authentication method \"magic\""),
            ("host all all all pam", "invalid authentication method \"pam\": not supported by this build"),
            ("host all all all password", "invalid authentication method \"password\": not supported by this build"),
            ("host all all all cert", "cert authentication is only supported on hostssl connections"),
            ("host all all all trust clientcert=verify-ca", "clientcert can only be configured for \"hostssl\" rows"),
            (
                "hostssl all all all cert clientcert=verify-ca",
                "clientcert can only be set to \"verify-full\" when using \"cert\" authentication",
            ),
            ("hostssl all all all trust clientcert=1", "invalid value for clientcert: \"1\""),
            ("host all all all trust clientname=CN", "clientname can only be configured for \"hostssl\" rows"),
            ("host all all all trust option", "authentication option not in name=value format: option"),
            ("host all all all trust a=b", "unrecognized authentication option name: \"a\""),
            (
                "host all all all trust map=x",
                "authentication option \"map\" is only valid for authentication methods ident, peer, gssapi, sspi, \
                 and cert",
            ),
            ("host all all example.com trust", "invalid IP address \"example.com\": host names are not supported"),
        ] {
            assert_eq!(read(text).map(|rule| rule.line), Err(error.to_owned()), "{text}");
        }
    }

    #[test]
    fn rules_match_by_kind_names_and_address() {
        let client = |peer: &str, encrypted| Client {
            peer: peer.parse().unwrap(),
            encrypted,
            user: "alice",
            database: "shop",
            is_member: &|role| matches!(role, "alice" | "staff"),
        };
        let plain = client("10.0.0.7", false);
        let ssl = client("10.0.0.7", true);
        for (text, on_plain, on_ssl) in [
            ("host all all all trust", true, true),
            ("hostssl all all all trust", false, true),
            ("hostnossl all all all trust", true, false),
            ("hostgssenc all all all trust", false, false),
            ("hostnogssenc all all all trust", true, true),
            ("local all all trust", false, false),
            ("host shop alice 10.0.0.0/8 trust", true, true),
            ("host shop alice 10.0.0.0 255.0.0.0 trust", true, true),
            ("host shop,other bob,alice all trust", true, true),
            ("host \"all\" all all trust", false, false),
            ("host all \"all\" all trust", false, false),
            ("host sameuser all all trust", false, false),
            ("host samerole all all trust", false, false),
            ("host replication all all trust", false, false),
            ("host all +alice all trust", true, true),
            ("host all +bob all trust", false, false),
            ("host all bob all trust", false, false),
            ("host all all 11.0.0.0/8 trust", false, false),
        ] {
            let rule = read(text).unwrap();
            assert_eq!((rule.matches(&plain), rule.matches(&ssl)), (on_plain, on_ssl), "{text}");
        }
    }
}
