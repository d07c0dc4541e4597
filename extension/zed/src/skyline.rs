//! Starts Skyline's language server in Zed, and hands it the settings of `lsp.skyline`.

use zed_extension_api::{self as zed, serde_json, settings::LspSettings, LanguageServerId, Result};

struct Skyline;

impl zed::Extension for Skyline {
    fn new() -> Self {
        Skyline
    }

    /// The command of `lsp.skyline.binary`, else `skyline lsp` with the `skyline` of the project's shell.
    fn language_server_command(
        &mut self,
        id: &LanguageServerId,
        worktree: &zed::Worktree,
    ) -> Result<zed::Command> {
        let given = LspSettings::for_worktree(id.as_ref(), worktree)
            .ok()
            .and_then(|settings| settings.binary);
        let arguments = given.as_ref().and_then(|binary| binary.arguments.clone());
        let command = given
            .and_then(|binary| binary.path)
            .or_else(|| worktree.which("skyline"))
            .ok_or("There is no skyline on the PATH. Install it: pipx install skyline-profiler")?;
        Ok(zed::Command {
            command,
            args: arguments.unwrap_or_else(|| vec!["lsp".to_string()]),
            env: worktree.shell_env(),
        })
    }

    /// `lsp.skyline.settings`, in the section that the server asks for.
    fn language_server_workspace_configuration(
        &mut self,
        id: &LanguageServerId,
        worktree: &zed::Worktree,
    ) -> Result<Option<serde_json::Value>> {
        let settings = LspSettings::for_worktree(id.as_ref(), worktree)?.settings;
        Ok(Some(serde_json::json!({ "skyline": settings.unwrap_or_default() })))
    }
}

zed::register_extension!(Skyline);
