/** The initial HTML of the side bar's page. */

import { randomBytes } from "node:crypto";
import * as vscode from "vscode";

/** The page. Its policy allows only the script with the nonce and styles from the extension's folder. */
export function page(webview: vscode.Webview, dist: vscode.Uri): string {
  const nonce = randomBytes(16).toString("base64");
  const uri = (name: string): string => webview.asWebviewUri(vscode.Uri.joinPath(dist, name)).toString();
  const policy = ["default-src 'none'", `style-src ${webview.cspSource}`, `script-src 'nonce-${nonce}'`].join("; ");
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="${uri("view.css")}">
<title>Skyline</title>
</head>
<body>
<main id="view"></main>
<script nonce="${nonce}" src="${uri("view.js")}"></script>
</body>
</html>`;
}
