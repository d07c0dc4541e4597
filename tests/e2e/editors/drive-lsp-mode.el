;;; The whole way in lsp-mode: look, profile, change, undo.  -*- lexical-binding: t -*-

(require 'lsp-mode)
(require 'lsp-lens)

(setq lsp-session-file (expand-file-name "lsp-session" (getenv "HOME"))
      lsp-server-install-dir (expand-file-name "servers" (getenv "HOME"))
      lsp-enable-suggest-server-download nil
      lsp-enable-snippet nil
      lsp-diagnostics-provider :flymake
      lsp-keep-workspace-alive nil
      lsp-auto-guess-root t)

(defun drive-lens (part)
  "The title of a lens that holds PART."
  (let ((found (lsp-request "textDocument/codeLens" (list :textDocument (lsp--text-document-identifier)))))
    (cl-some (lambda (one)
               (let ((title (lsp:command-title (lsp:code-lens-command? one))))
                 (and (string-match-p (regexp-quote part) title) title)))
             found)))

(defun drive-lsp-mode ()
  (lsp-workspace-folders-add default-directory)
  (unless (lsp-workspaces) (lsp))
  (drive-wait "the server" 30
              (lambda () (cl-some (lambda (one) (eq 'initialized (lsp--workspace-status one))) (lsp-workspaces))))
  (let ((before (drive-text)) (path (buffer-file-name)))
    (drive-saw 'invitation (drive-wait "an invitation" 20 (lambda () (drive-lens "Profile this training script"))))
    (lsp-lens-refresh t)
    (drive-wait "a lens above the loop" 20 (lambda () lsp-lens--overlays))
    (lsp-workspace-command-execute "skyline.profile"
                                   (vector (lsp--buffer-uri) (list :batchPoints 0 :steps 4)))
    (drive-saw 'headline (drive-wait "a headline" 90
                                     (lambda () (and (not (drive-lens "Profiling,")) (drive-lens "per iteration")))))
    (drive-wait "a finding" 20
                (lambda ()
                  (cl-some (lambda (one)
                             (when (equal (lsp:diagnostic-code? one) "SKY301")
                               (drive-saw 'finding
                                          `((line . ,(lsp:position-line (lsp:range-start (lsp:diagnostic-range one))))
                                            (message . ,(lsp:diagnostic-message one))))
                               t))
                           (gethash path (lsp-diagnostics t)))))
    (drive-line "loss.backward()")
    (drive-saw 'hover (lsp:markup-content-value
                       (lsp:hover-contents
                        (lsp-request "textDocument/hover" (lsp--text-document-position-params)))))
    (drive-line "optimizer = torch.optim.Adam")
    (undo-boundary)
    (lsp-execute-code-action
     (or (cl-find-if (lambda (one) (and (equal "quickfix" (lsp:code-action-kind? one))
                                        (string-match-p "fused" (lsp:code-action-title one))))
                     (lsp-code-actions-at-point))
         (error "No quick fix")))
    (drive-wait "the change" 20 (lambda () (not (equal (drive-text) before))))
    (drive-saw 'changed (drive-text))
    (drive-undo before)))

(drive #'drive-lsp-mode)
